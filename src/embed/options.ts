/**
 * Reads options in code. They are the flags of `understudy serve` in camel case: `--max-num-seqs 8` is `maxNumSeqs: 8`.
 * Accepted values and defaults are those of the options table.
 */

import type { ServeConfig } from "../app/config/serve-config.ts";
import type { OptionInput } from "../cli/options/given.ts";
import type { Option } from "../cli/options/option.ts";
import { serveConfig } from "../cli/options/serve-config.ts";
import { type OptionName, type ServeValues, serveOptions } from "../cli/options/serve-options.ts";
import type { EngineOptions } from "./engine-option-types.ts";

/** Options of an engine without a server. */
export const ENGINE_OPTIONS = [
  "max-model-len",
  "seed",
  "max-num-seqs",
  "max-num-active-seqs",
  "max-num-batched-tokens",
  "max-num-scheduled-tokens",
  "scheduling-policy",
  "enable-chunked-prefill",
  "async-scheduling",
  "long-prefill-token-threshold",
  "long-prefill-token-threshold-adaptive",
  "prefill-schedule-interval",
  "scheduler-reserve-full-isl",
  "watermark",
  "block-size",
  "num-gpu-blocks-override",
  "gpu-memory-utilization",
  "kv-cache-dtype",
  "custom-histogram-buckets",
  "enable-prefix-caching",
  "enable-lora",
  "max-loras",
  "timing",
  "jitter",
  "overhead-jitter",
  "jitter-tail",
  "slow-steps",
  "speed",
  "output-tokens",
  "mean-output-tokens",
] as const satisfies readonly OptionName[];

const NO_LOG = "a server of the library writes no log";
/** Flags of `understudy serve` that code cannot set, with the reason. */
export const NOT_HERE = {
  config: "a file of options belongs to the command line",
  "disable-uvicorn-access-log": NO_LOG,
  "enable-log-requests": NO_LOG,
  "uvicorn-log-level": NO_LOG,
  "print-config": "a program knows the options that it sets",
  "ready-file": "a promise, ready, resolves when requests are taken",
  "exit-with-parent": "a server of the library ends with its process",
  workers: "a server of the library is one process",
  "data-parallel-multi-port-external-lb": "a server of the library has one port",
} as const satisfies { readonly [Name in OptionName]?: string };

/** Throws a TypeError of one line for an unknown option, a wrong value, or a combination that vLLM refuses. */
export function engineConfig(options: EngineOptions): ServeConfig {
  return resolve(options, ENGINE_OPTIONS, {}).config;
}

/** Resolves options in camel case like a command line. `names`: the accepted options. */
export function resolve(
  options: object,
  names: readonly string[],
  defaults: ServeValues,
): { readonly config: ServeConfig; readonly values: ServeValues } {
  const values: Record<string, unknown> = { ...defaults };
  const said = new Map<string, OptionInput>();
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const name = dashed(key);
    if (!names.includes(name))
      throw new TypeError(`${key}: no such option; there are ${names.map(camelCase).join(", ")}`);
    const option: Option = serveOptions[name as OptionName];
    const texts = option.arity === "list" ? textsOf(value) : [textOf(value)];
    values[name] = option.read(texts);
    if (values[name] === undefined)
      throw new TypeError(`${key}: takes ${option.accepts}, not ${JSON.stringify(value) ?? String(value)}`);
    said.set(name, { name, texts, where: key, ignored: false });
  }
  const made = serveConfig(values, said);
  if ("error" in made) throw new TypeError(made.error);
  return { config: made.config, values };
}

/** Returns the items of a list as texts, or one text for any other value. */
export const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value : [value]).map(textOf);

/** Formats a value as text: objects and lists as JSON. */
const textOf = (value: unknown): string =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);

export const dashed = (key: string): string => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

export function camelCase(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}
