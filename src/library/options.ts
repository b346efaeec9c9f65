/**
 * How are options said in code? As the flags of `understudy serve`, in camel case: `--max-num-seqs 8` is `maxNumSeqs: 8`.
 * What each takes, and its default, is said by the flags' own table.
 */
import type { Given } from "../cli/given.ts";
import type { Option } from "../cli/option.ts";
import { type OptionName, serveOptions, type Values } from "../cli/options.ts";
import { serveConfig } from "../cli/serve-config.ts";
import type { ServeConfig } from "../config/types.ts";

const ENGINE = [
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

/**
 * A file of options belongs to a command line, the library writes no access log, and a server for tests is one process.
 */
const NOT_HERE = ["config", "disable-uvicorn-access-log", "workers"] as const satisfies readonly OptionName[];

const SERVER = Object.keys(serveOptions).filter((name) => !(NOT_HERE as readonly string[]).includes(name));

type CamelCase<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name;
type Named<Name extends OptionName> = { readonly [Key in Name as CamelCase<Key>]?: Values[Key] | undefined };

/** Scheduler, KV cache, and how long steps take; README.md lists the flags. */
export type EngineOptions = Named<(typeof ENGINE)[number]>;
/** The flags of `understudy serve`, but that the port is a free one unless given, and the log is silent. */
export type ServerOptions = Named<Exclude<OptionName, (typeof NOT_HERE)[number]>> & {
  /** vLLM's VLLM_SERVER_DEV_MODE: routes that pause, resume and reset caches. */
  readonly devMode?: boolean | undefined;
};

/** Throws a TypeError in one line: an unknown option, a value that it does not take, or values that vLLM refuses together. */
export function engineConfig(options: EngineOptions): ServeConfig {
  return resolve(options, ENGINE, {});
}

/** The same for a server. */
export function serverConfig(options: ServerOptions): ServeConfig {
  const { devMode = false, ...flags } = options;
  return { ...resolve(flags, SERVER, { port: 0, "disable-uvicorn-access-log": true }), devMode };
}

function resolve(options: object, names: readonly string[], defaults: Values): ServeConfig {
  const values: Record<string, unknown> = { ...defaults };
  const said = new Map<string, Given>();
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    if (!names.includes(name))
      throw new TypeError(`${key}: no such option; there are ${names.map(camelCase).join(", ")}`);
    const option: Option = serveOptions[name as OptionName];
    const texts = (Array.isArray(value) ? value : [value]).map(String);
    values[name] = option.read(texts);
    if (values[name] === undefined)
      throw new TypeError(`${key}: takes ${option.accepts}, not ${JSON.stringify(value) ?? String(value)}`);
    said.set(name, { name, texts, where: key, ignored: false });
  }
  const made = serveConfig(values, said);
  if ("error" in made) throw new TypeError(made.error);
  return made.config;
}

function camelCase(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}
