/** What did the user say, and where? The common form of flags, environment and file. */
import type { Found } from "./lookup.ts";
import { nearNames } from "./lookup.ts";

export interface Given {
  readonly name: string;
  /** What the option reads; a toggle has "true" or "false". */
  readonly texts: readonly string[];
  /** For messages: `--port`, `UNDERSTUDY_PORT`, `serve.yaml:3: port`. */
  readonly where: string;
  readonly ignored: boolean;
}

export interface Refused {
  /** One line. */
  readonly error: string;
}

export function given(found: Found, texts: readonly string[], where: string): Given {
  return { name: found.name, texts, where, ignored: found.ignored };
}

export function unknown(where: string, what: "flag" | "key", written: string): Refused {
  const dashes = what === "flag" ? "--" : "";
  const near = nearNames(written).map((name) => dashes + name);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "it is no option of vllm serve 0.33 either";
  return { error: `${where}: unknown ${what}; ${hint} (understudy serve --help lists what is accepted)` };
}

export function wrongValue(where: string, accepts: string, written: string): Refused {
  return { error: `${where}: takes ${accepts}, not "${written}"` };
}
