/** Stores and validates trace settings. No traces are written. */
import { invalidArg, TritonError } from "../model-config/status.ts";

/** Default, smallest and largest value of each setting. */
const SETTINGS = {
  trace_rate: [1000, 0, 2 ** 32 - 1],
  trace_count: [-1, -1, 2 ** 31 - 1],
  log_frequency: [0, 0, 2 ** 32 - 1],
} as const;
type SettingName = keyof typeof SETTINGS;
type Settings = Readonly<Partial<Record<SettingName, number>>>;
export const TRACE_NAMES = Object.keys(SETTINGS) as readonly SettingName[];
const DEFAULTS = Object.fromEntries(TRACE_NAMES.map((name) => [name, SETTINGS[name][0]])) as Required<Settings>;

export class TraceSettings {
  #all: Settings = {};
  readonly #ofModels = new Map<string, Settings>();

  /** Returns the settings of a model, or with null the global ones. */
  of(model: string | null): Required<Settings> {
    const modelSettings = model === null ? {} : this.#ofModels.get(model);
    return { ...DEFAULTS, ...this.#all, ...modelSettings };
  }

  /** Changes settings. Null resets a value. Throws a `TritonError` without changing anything. */
  set(model: string | null, changes: Readonly<Record<string, number | null>>): void {
    const before = model === null ? this.#all : (this.#ofModels.get(model) ?? {});
    const after = Object.fromEntries(Object.entries({ ...before, ...changes }).filter(([, value]) => value !== null));
    if (model === null) this.#all = after;
    else this.#ofModels.set(model, after);
  }
}

/** Parses a value. `gap`: text before the value in one message, which differs between HTTP and gRPC. */
function numberIn(name: SettingName, text: string, gap: string): number {
  const [, least, most] = SETTINGS[name];
  const [digits] = /^\s*[+-]?\d+/.exec(text) ?? [];
  if (digits === undefined) throw invalidArg(`Unable to parse '${name}', got: ${text}`);
  const value = Number(digits);
  // The real server parses every setting as an `int`.
  if (value < -(2 ** 31) || value >= 2 ** 31)
    throw invalidArg(`Unable to parse '${name}', value is out of range [ ${least}, ${most} ], got: ${text}`);
  if (name !== "trace_count") return value >>> 0;
  if (value < least) throw invalidArg(`Unable to parse 'trace_count'. Expecting value >= ${least}, got:${gap}${text}`);
  return value;
}

/** A request for a change. A value is text, null to reset the setting, or undefined if the request omits it. */
export interface TraceSettingsRequest {
  readonly file: boolean;
  readonly gap: "" | " ";
  readonly levels: readonly string[];
  readonly value: (name: SettingName) => string | null | undefined;
}

/** Returns the changes. Throws the same errors as `HandleTrace` in `http_server.cc` (2026), as a `TritonError`. */
export function traceChanges({ file, gap, levels, value }: TraceSettingsRequest): Record<string, number | null> {
  if (file) throw new TritonError("UNSUPPORTED", "trace file location can not be updated through network protocol");
  if (levels.includes("OFF") && levels.length > 1) throw invalidArg("Expect only one trace level 'OFF' is specified");
  const changes: Record<string, number | null> = {};
  for (const name of TRACE_NAMES) {
    const text = value(name);
    if (text !== undefined) changes[name] = text === null ? null : numberIn(name, text, gap);
  }
  // Traces cannot be enabled, because no trace file can be set over the network.
  if (levels.some((level) => level === "TIMESTAMPS" || level === "TENSORS"))
    throw invalidArg("Attempting to set invalid trace setting :trace file name is not given");
  return changes;
}
