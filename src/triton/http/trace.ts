/** Which trace settings are there, and what may be set over the network? `http_server.cc`, `HandleTrace` (2026). No trace is written. */
import { invalidArg, TritonError } from "../config/status.ts";
import { asArray, asString, documentOf, find } from "../tensors/access.ts";
import type { JsonNode } from "../tensors/rapid-json.ts";
import { type HandlerAnswer, type HttpCall, jsonAnswer } from "./call.ts";

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
const NAMES = Object.keys(DEFAULTS) as readonly (keyof Settings)[];

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

/** `GET` and `POST`, of all models or of one. */
export async function traceSettings(call: HttpCall): Promise<HandlerAnswer> {
  const [model = null] = call.found;
  const { server, traces } = call.around;
  if (model !== null && server.versions(model).length === 0) throw invalidArg(`Request for unknown model : ${model}`);
  if (call.method === "POST") traces.set(model, changesIn(documentOf((await call.body()) ?? new Uint8Array())));
  const now = traces.of(model);
  const numbers = NAMES.map((name) => `"${name}":"${now[name]}"`).join(",");
  return jsonAnswer(`{"trace_level":["OFF"],${numbers},"trace_file":"","trace_mode":"triton"}`);
}

function changesIn(document: JsonNode): Record<string, number | null> {
  const changes: Record<string, number | null> = {};
  if (find(document, "trace_file") !== undefined)
    throw new TritonError("UNSUPPORTED", "trace file location can not be updated through network protocol");
  const level = find(document, "trace_level");
  const levels = level === undefined || level === null ? [] : asArray(level).map(asString);
  if (levels.includes("OFF") && levels.length > 1) throw invalidArg("Expect only one trace level 'OFF' is specified");
  for (const name of NAMES) {
    const value = find(document, name);
    if (value === undefined) continue;
    changes[name] = value === null ? null : numberIn(name, asString(value));
  }
  // Without a file no trace can be switched on, and none can be given.
  if (levels.some((one) => one === "TIMESTAMPS" || one === "TENSORS"))
    throw invalidArg("Attempting to set invalid trace setting :trace file name is not given");
  return changes;
}

function numberIn(name: keyof Settings, text: string): number {
  const [least, most] = RANGES[name];
  const [digits] = /^\s*[+-]?\d+/.exec(text) ?? [];
  if (digits === undefined) throw invalidArg(`Unable to parse '${name}', got: ${text}`);
  const value = Number(digits);
  if (name === "trace_count" && value < least)
    throw invalidArg(`Unable to parse 'trace_count'. Expecting value >= ${least}, got:${text}`);
  if (value < least || value > most)
    throw invalidArg(`Unable to parse '${name}', value is out of range [ ${least}, ${most} ], got: ${text}`);
  return value;
}
