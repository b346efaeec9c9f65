/** What did the user say, and where? The common form of flags, environment and file. */
import { TRTLLM_SERVE } from "../../app/config/roles.ts";
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
  /** True if unambiguous prefixes of vLLM's flags are accepted, as by its argparse; absent: false. */
  readonly abbreviates?: boolean;
}

export const SERVE: Command = { name: "serve", own: [] };

/** Returns the command as a role has it. trtllm-serve reads its flags with click, which has no abbreviations. */
export function inRole(command: Command, role: string | undefined): Command {
  if (role !== TRTLLM_SERVE) return command;
  return { ...command, like: TRTLLM_SERVE, names: trtllmNames, abbreviates: false };
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

/** Flags that vLLM had, although trtllm-serve still has options of these names. */
const REMOVED_FROM_VLLM = ["guided-decoding-backend"];

export function unknown(where: string, what: "flag" | "key", written: string, command: Command = SERVE): UsageError {
  const { name, own, like = "vllm serve 0.33" } = command;
  const plain = written.replaceAll("_", "-");
  const gone = ownValue(GONE, plain);
  if (gone !== undefined) return { error: `${where}: there is no such ${what} any more; ${gone}` };
  if (like === TRTLLM_SERVE && NO_DISAGGREGATION.includes(plain))
    return { error: `${where}: disaggregated serving is not built` };
  const dashes = what === "flag" ? "--" : "";
  const near = nearNames(written, own).map((candidate) => dashes + candidate);
  const isTrtllms = !REMOVED_FROM_VLLM.includes(plain) && lookup(written, trtllmNames) !== undefined;
  if (near.length === 0 && like !== TRTLLM_SERVE && isTrtllms)
    return { error: `${where}: needs --role ${TRTLLM_SERVE}` };
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : `it is no option of ${like} either`;
  return { error: `${where}: unknown ${what}; ${hint} (understudy ${name} --help lists what is accepted)` };
}

export function wrongValue(where: string, accepts: string, written: string): UsageError {
  return { error: `${where}: takes ${accepts}, not "${written}"` };
}
