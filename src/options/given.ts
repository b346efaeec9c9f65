/** What did the user say, and where? The common form of flags, environment and file. */
import { TRTLLM_SERVE } from "../config/roles.ts";
import type { FoundOption, RoleNames } from "./lookup.ts";
import { lookup, nearNames } from "./lookup.ts";
import { ownValue } from "./option.ts";
import { trtllmNames } from "./trtllm-names.ts";

export interface Given {
  readonly name: string;
  /** What the option reads; a toggle has "true" or "false". */
  readonly texts: readonly string[];
  /** For messages: `--port`, `UNDERSTUDY_PORT`, `serve.yaml:3: port`. */
  readonly where: string;
  readonly ignored: boolean;
}

export interface UsageError {
  /** One line. */
  readonly error: string;
}

export function given(found: FoundOption, texts: readonly string[], where: string): Given {
  return { name: found.name, texts, where, ignored: found.ignored };
}

/** Whose flags are read, which it has beside those of the server, and whose command line that of the server is. */
export interface Command {
  readonly name: string;
  readonly own: readonly string[];
  readonly like?: string;
  /** What that one has beside the options of all roles. */
  readonly names?: RoleNames;
}

export const SERVE: Command = { name: "serve", own: [] };

/** The command as a role has it. */
export function inRole(command: Command, role: string | undefined): Command {
  return role === TRTLLM_SERVE ? { ...command, like: TRTLLM_SERVE, names: trtllmNames } : command;
}

/** Options of trtllm-serve that would change what is served, and are not built. */
const NO_DISAGGREGATION = [
  "cache-transceiver-config",
  "disagg-cluster-uri",
  "metadata-server-config-file",
  "server-role",
];

/** Options that this program had, and what there is in their place. */
const GONE: Readonly<Record<string, string>> = {
  "http-server": "one server speaks HTTP, as uvicorn does",
  "early-head": "the head of a stream leaves at once",
};

export function unknown(where: string, what: "flag" | "key", written: string, command: Command = SERVE): UsageError {
  const { name, own, like = "vllm serve 0.33" } = command;
  const plain = written.replaceAll("_", "-");
  const gone = ownValue(GONE, plain);
  if (gone !== undefined) return { error: `${where}: there is no such ${what} any more; ${gone}` };
  if (like === TRTLLM_SERVE && NO_DISAGGREGATION.includes(plain))
    return { error: `${where}: disaggregated serving is not built` };
  const dashes = what === "flag" ? "--" : "";
  const near = nearNames(written, own).map((candidate) => dashes + candidate);
  if (near.length === 0 && like !== TRTLLM_SERVE && lookup(written, trtllmNames))
    return { error: `${where}: needs --role ${TRTLLM_SERVE}` };
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : `it is no option of ${like} either`;
  return { error: `${where}: unknown ${what}; ${hint} (understudy ${name} --help lists what is accepted)` };
}

export function wrongValue(where: string, accepts: string, written: string): UsageError {
  return { error: `${where}: takes ${accepts}, not "${written}"` };
}
