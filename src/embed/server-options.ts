/**
 * Reads the options of a server in code: the flags of `understudy serve` in camel case, and with `compat` also those of the other
 * stand-in, parsed like on its command line.
 */

import type { ServeConfig } from "../app/config/serve-config.ts";
import { KEYS } from "../cli/compat/llm-d-keys.ts";
import type { Option } from "../cli/options/option.ts";
import { type OptionName, serveOptions } from "../cli/options/serve-options.ts";
import { LiveOptions } from "../cli/serve/live-options.ts";
import { resolveServeConfig } from "../cli/serve/resolve.ts";
import type { Admin } from "../kernel/live-settings.ts";
import type { ServerOptions } from "./option-types.ts";
import { camelCase, dashed, NOT_HERE, resolve, textsOf } from "./options.ts";

const SERVER = Object.keys(serveOptions).filter((name) => !Object.hasOwn(NOT_HERE, name));

export interface ServerSetup {
  readonly config: ServeConfig;
  /** Access to the running server's options; present with `adminKey`. */
  readonly admin?: Admin;
}

/** Throws a TypeError of one line for an unknown option, a wrong value, or a combination that vLLM refuses. */
export function serverSetup(options: ServerOptions): ServerSetup {
  const { devMode = false, ...flags } = options;
  for (const [key, value] of Object.entries(flags)) {
    const name = dashed(key);
    if (value !== undefined && Object.hasOwn(NOT_HERE, name))
      throw new TypeError(`${key}: no such option here; ${NOT_HERE[name as keyof typeof NOT_HERE]}`);
  }
  const { config, values, latencies } =
    flags.compat === undefined
      ? { ...resolve(flags, SERVER, { port: 0, "disable-uvicorn-access-log": true }), latencies: undefined }
      : resolveForeign(flags);
  const key = values["admin-key"];
  const front = { ...config.openai.front, devMode };
  const served = { ...config, openai: { ...config.openai, front } };
  return key === undefined
    ? { config: served }
    : { config: served, admin: { key, options: new LiveOptions(values, latencies) } };
}

/** Resolves options with `compat` as a command line, because only that accepts the other stand-in's flags. Listens on 127.0.0.1. */
function resolveForeign(flags: object) {
  const said = Object.entries(flags).filter(([, value]) => value !== undefined);
  const argv = said.flatMap(([key, value]) => argvOf(key, dashed(key), value));
  const quiet = ["--host=127.0.0.1", "--port=0", "--disable-uvicorn-access-log"];
  const resolved = resolveServeConfig([...quiet, ...argv], {}, () => {
    throw new Error("no file is read");
  });
  if ("error" in resolved) throw new TypeError(withOption(resolved.error));
  if ("help" in resolved) throw new TypeError("help: no such option");
  return resolved;
}

/** Replaces the flag at the start of a message by the option's name in code. */
export const withOption = (line: string): string => line.replace(/^--([a-z-]+)/, (_, name: string) => camelCase(name));

function argvOf(key: string, name: string, value: unknown): readonly string[] {
  const foreign = Object.hasOwn(KEYS, name) ? KEYS[name]! : undefined;
  if (foreign === undefined && !SERVER.includes(name))
    throw new TypeError(`${key}: no such option, neither of understudy serve nor of llm-d-inference-sim`);
  if (foreign !== undefined && "unsupported" in foreign.fate)
    throw new TypeError(`${key}: not supported; ${foreign.fate.unsupported}`);
  const option: Option | undefined = serveOptions[name as OptionName];
  const takes = foreign?.takes ?? option!.arity;
  const texts = textsOf(value);
  if (takes === "list") return texts.length === 0 ? [] : [`--${name}`, ...texts];
  if (takes !== "switch" && takes !== "toggle") return [`--${name}=${texts.join(" ")}`];
  if (typeof value !== "boolean") throw new TypeError(`${key}: takes true or false, not ${JSON.stringify(value)}`);
  if (foreign !== undefined) return [`--${name}=${value}`];
  return value ? [`--${name}`] : takes === "toggle" ? [`--no-${name}`] : [];
}
