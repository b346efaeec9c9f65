/** Which trace settings are there, and which values may each have? No trace is written. */
import { invalidArg, TritonError } from "../model-config/status.ts";

interface Settings {
  readonly trace_rate?: number;
  readonly trace_count?: number;
  readonly log_frequency?: number;
}

const DEFAULTS: Required<Settings> = { trace_rate: 1000, trace_count: -1, log_frequency: 0 };
/** Least and largest value of each. */
const RANGES: Readonly<Record<keyof Settings, readonly [number, number]>> = {
  trace_rate: [0, 2 ** 32 - 1],
  trace_count: [-1, 2 ** 31 - 1],
  log_frequency: [0, 2 ** 32 - 1],
};
export const TRACE_NAMES = Object.keys(DEFAULTS) as readonly (keyof Settings)[];

export class TraceSettings {
  #all: Settings = {};
  readonly #ofModels = new Map<string, Settings>();

  /** `model` null: of all. */
  of(model: string | null): Required<Settings> {
    const own = model === null ? {} : this.#ofModels.get(model);
    return { ...DEFAULTS, ...this.#all, ...own };
  }

  /** null takes a value back. Throws a `TritonError`; nothing has changed then. */
  set(model: string | null, changes: Readonly<Record<string, number | null>>): void {
    const before = model === null ? this.#all : (this.#ofModels.get(model) ?? {});
    const after = Object.fromEntries(Object.entries({ ...before, ...changes }).filter(([, value]) => value !== null));
    if (model === null) this.#all = after;
    else this.#ofModels.set(model, after);
  }
}

/** `gap` stands before a count that is too small: HTTP has none there. */
function numberIn(name: keyof Settings, text: string, gap: string): number {
  const [least, most] = RANGES[name];
  const [digits] = /^\s*[+-]?\d+/.exec(text) ?? [];
  if (digits === undefined) throw invalidArg(`Unable to parse '${name}', got: ${text}`);
  const value = Number(digits);
  // Read as an `int`, whatever the setting is.
  if (value < -(2 ** 31) || value >= 2 ** 31)
    throw invalidArg(`Unable to parse '${name}', value is out of range [ ${least}, ${most} ], got: ${text}`);
  if (name !== "trace_count") return value >>> 0;
  if (value < least) throw invalidArg(`Unable to parse 'trace_count'. Expecting value >= ${least}, got:${gap}${text}`);
  return value;
}

/** What a request says, however it says it: a value's text, null to take it back, undefined where it says nothing. */
export interface TraceWish {
  readonly file: boolean;
  readonly gap: "" | " ";
  readonly levels: readonly string[];
  readonly value: (name: keyof Settings) => string | null | undefined;
}

/** Throws a `TritonError`, as `HandleTrace` of `http_server.cc` (2026) does. */
export function traceChanges({ file, gap, levels, value }: TraceWish): Record<string, number | null> {
  if (file) throw new TritonError("UNSUPPORTED", "trace file location can not be updated through network protocol");
  if (levels.includes("OFF") && levels.length > 1) throw invalidArg("Expect only one trace level 'OFF' is specified");
  const changes: Record<string, number | null> = {};
  for (const name of TRACE_NAMES) {
    const text = value(name);
    if (text !== undefined) changes[name] = text === null ? null : numberIn(name, text, gap);
  }
  // Without a file no trace can be switched on, and none can be given.
  if (levels.some((one) => one === "TIMESTAMPS" || one === "TENSORS"))
    throw invalidArg("Attempting to set invalid trace setting :trace file name is not given");
  return changes;
}
