/** An option as the user wrote it, with its place: the common form of command line, environment and configuration file. */
import { TRTLLM_SERVE } from "../../app/config/roles.ts";
import type { FoundOption, RoleNames } from "./lookup.ts";
import { lookup, nearNames } from "./lookup.ts";
import { ownValue } from "./option.ts";
import { trtllmNames } from "./trtllm-names.ts";

export interface OptionInput {
  /** Name of the option without dashes, in the spelling of the options table. */
  readonly name: string;
  /** Values as text. A toggle has "true" or "false". */
  readonly texts: readonly string[];
  /** Place of the option, for messages: `--port`, `UNDERSTUDY_PORT`, `serve.yaml:3: port`. */
  readonly where: string;
  /** True if the option is accepted without effect. */
  readonly ignored: boolean;
}

export interface UsageError {
  /** One line. */
  readonly error: string;
}

export function optionInput(match: FoundOption, texts: readonly string[], where: string): OptionInput {
  return { name: match.name, texts, where, ignored: match.ignored };
}

/** A command of `understudy` that takes the options of a server. */
export interface Command {
  readonly name: string;
  /** Names of options that the server does not have. */
  readonly own: readonly string[];
  /** Real server whose command line is imitated, for messages; absent: `vllm serve 0.33`. */
  readonly like?: string;
  /** Names that only this role's server accepts; absent: none. */
  readonly names?: RoleNames;
  /** True if unambiguous prefixes of vLLM's flags are accepted, as by its argparse; absent: false. */
  readonly abbreviates?: boolean;
}

export const SERVE: Command = { name: "serve", own: [] };

/** Returns the command with the names of a role. For trtllm-serve it accepts no abbreviations, because click has none. */
export function inRole(command: Command, role: string | undefined): Command {
  if (role !== TRTLLM_SERVE) return command;
  return { ...command, like: TRTLLM_SERVE, names: trtllmNames, abbreviates: false };
}

/** Options of trtllm-serve for disaggregated serving. They are refused, because ignoring them would change the answers. */
const NO_DISAGGREGATION = [
  "cache-transceiver-config",
  "disagg-cluster-uri",
  "metadata-server-config-file",
  "server-role",
];

/** Options that earlier versions of this program had, with the behavior that replaced each. */
const REMOVED_OPTIONS: Readonly<Record<string, string>> = {
  "http-server": "there is only one HTTP server",
  "early-head": "the headers of a stream are always sent at once",
};

/** Flags that vLLM removed and trtllm-serve still has. The error does not suggest the role of trtllm-serve for them. */
const REMOVED_FROM_VLLM = ["guided-decoding-backend"];

/** Words the error for a name that is not an option: the reason if it is known, else similar names. */
export function unknown(where: string, what: "flag" | "key", written: string, command: Command = SERVE): UsageError {
  const { name, own, like = "vllm serve 0.33" } = command;
  const plain = written.replaceAll("_", "-");
  const gone = ownValue(REMOVED_OPTIONS, plain);
  if (gone !== undefined) return { error: `${where}: this ${what} was removed; ${gone}` };
  if (like === TRTLLM_SERVE && NO_DISAGGREGATION.includes(plain))
    return { error: `${where}: disaggregated serving is not built` };
  const dashes = what === "flag" ? "--" : "";
  const near = nearNames(written, own).map((candidate) => dashes + candidate);
  const isTrtllms = !REMOVED_FROM_VLLM.includes(plain) && lookup(written, trtllmNames) !== undefined;
  if (near.length === 0 && like !== TRTLLM_SERVE && isTrtllms)
    return { error: `${where}: needs --role ${TRTLLM_SERVE}` };
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : `${like} does not have it either`;
  return { error: `${where}: unknown ${what}; ${hint} (understudy ${name} --help lists the options)` };
}

export function wrongValue(where: string, accepts: string, written: string): UsageError {
  return { error: `${where}: takes ${accepts}, not "${written}"` };
}
