/**
 * An option as the user wrote it, with the place where it was written. Command line, environment and configuration file are all
 * read into this form.
 */
import { TRTLLM_SERVE } from "../../app/config/roles.ts";
import type { FoundOption, RoleNames } from "./lookup.ts";
import { lookup, nearNames } from "./lookup.ts";
import { ownValue } from "./option.ts";
import { trtllmNames } from "./trtllm-names.ts";

export interface OptionInput {
  /** Name of the option without dashes, as spelled in the table of options. */
  readonly name: string;
  /** Values as texts. A toggle has the single text "true" or "false". */
  readonly texts: readonly string[];
  /** Place where the user wrote the option, for messages: `--port`, `UNDERSTUDY_PORT`, `serve.yaml:3: port`. */
  readonly where: string;
  /** True if the server accepts the option but the option has no effect. */
  readonly ignored: boolean;
}

export interface UsageError {
  /** Error message in one line. */
  readonly error: string;
}

export function optionInput(
  match: Pick<FoundOption, "name" | "ignored">,
  texts: readonly string[],
  where: string,
): OptionInput {
  return { name: match.name, texts, where, ignored: match.ignored };
}

/** A command of `understudy` that takes the options of a server. */
export interface Command {
  readonly name: string;
  /** Names of options that only this command has; the server does not accept them. */
  readonly own: readonly string[];
  /** Real server whose command line the command imitates, for messages. Absent: `vllm serve 0.33`. */
  readonly like?: string;
  /** Names that only the server of this role accepts. Absent: the role has no names of its own. */
  readonly names?: RoleNames;
  /** True if the command accepts abbreviated flags of vLLM, as argparse does. Absent: false. */
  readonly abbreviates?: boolean;
}

export const SERVE: Command = { name: "serve", own: [] };

/**
 * Returns the command with the names of a role. For trtllm-serve the command accepts no abbreviations, because trtllm-serve's
 * parser (click) has none.
 */
export function inRole(command: Command, role: string | undefined): Command {
  if (role !== TRTLLM_SERVE) return command;
  return { ...command, like: TRTLLM_SERVE, names: trtllmNames, abbreviates: false };
}

/** Options of trtllm-serve for disaggregated serving. They are refused, because answers would differ if they had no effect. */
const NO_DISAGGREGATION = [
  "cache-transceiver-config",
  "disagg-cluster-uri",
  "metadata-server-config-file",
  "server-role",
];

/** Options that earlier versions of this program had, each with the behavior that replaced it. */
const REMOVED_OPTIONS: Readonly<Record<string, string>> = {
  "http-server": "there is only one HTTP server",
  "early-head": "the headers of a stream are always sent at once",
};

/** Flags that vLLM removed and trtllm-serve still has. The error for such a flag does not suggest the role of trtllm-serve. */
const REMOVED_FROM_VLLM = ["guided-decoding-backend"];

/** Returns the error for a name that is not an option. The message gives the reason if it is known, and similar names if not. */
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
