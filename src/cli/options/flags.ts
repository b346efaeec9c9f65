/** Parses a command line by the rules of vLLM's parser. Completes abbreviated flags if the command accepts them. */

import { parsedJson } from "../../base/json-object.ts";
import { ambiguous, type Completion, completionsOf } from "./abbreviations.ts";
import { type Command, type OptionInput, optionInput, SERVE, type UsageError, unknown } from "./given.ts";
import { shortFlags } from "./ignored-flags.ts";
import { type FoundOption, lookup } from "./lookup.ts";
import { splitAtEquals } from "./option.ts";

export interface Flags {
  readonly given: readonly OptionInput[];
  readonly positional: readonly string[];
  /** The word of `--help=WORD`, or "" for `--help` alone. Absent if the user asks for no help. */
  readonly help?: string;
}

export function parseFlags(argv: readonly string[], command: Command = SERVE): Flags | UsageError {
  const said: OptionInput[] = [];
  const positional: string[] = [];
  /** The flag without a value that directly precedes the next argument; undefined if the previous argument is not such a flag. */
  let bare: { readonly written: string; readonly found: FoundOption } | undefined;
  for (let at = 0; at < argv.length; ) {
    const token = argv[at++]!;
    if (token === "--") return { given: said, positional: positional.concat(argv.slice(at)) };
    if (!isFlag(token)) {
      // A word such as "false" after a switch is a mistake: users mean it as the value of the switch, not as a positional
      // argument.
      if (bare && TRUTHS.test(token)) return wrongCount(bare.written, bare.found, token);
      bare = undefined;
      positional.push(token);
      continue;
    }
    const spelled = completed(token, command);
    if (typeof spelled === "object" && "error" in spelled) return spelled;
    const [written, attached] = spelled;
    if (written === "--help" || written === "-h") return { given: said, positional, help: attached ?? "" };

    const found = findFlag(written, command);
    if (!found) return unknown(written, "flag", written.replace(/^-+/, ""), command);
    const rest = attached === undefined ? valuesFrom(argv, at, found) : [];
    const texts = textsOf(found, attached, rest);
    if (texts === undefined) return wrongCount(written, found, attached);
    said.push(optionInput(found, found.keys ? [keyedText(found.keys, texts[0]!)] : texts, written));
    bare = isSwitch(found) ? { written, found } : undefined;
    at += rest.length;
  }
  return { given: said, positional };
}

/** Returns a JSON object with the value at the keys. A value that is not JSON is a text, as in vLLM's parser. */
function keyedText(keys: readonly string[], text: string): string {
  const value = parsedJson(text) ?? (text === "null" ? null : text);
  return JSON.stringify(keys.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value));
}

/** Matches words that users write after a switch by mistake. */
const TRUTHS = /^(true|false|on|off|yes|no|0|1)$/i;

function isSwitch({ option: { arity } }: FoundOption): boolean {
  return arity === "toggle" || arity === "switch";
}

/** Reports whether an argument is a flag. A lone dash and a negative number count as values. */
function isFlag(token: string): boolean {
  return token.startsWith("-") && token !== "-" && !/^-\d*\.?\d+$/.test(token);
}

/**
 * Splits `--flag=value` into flag and value, and vLLM's `-O3` into `-O` and `3`. `attached`: undefined if the argument has no
 * value.
 */
function split(token: string): [written: string, attached: string | undefined] {
  return /^-O\d$/.test(token) ? ["-O", token.slice(2)] : splitAtEquals(token);
}

/**
 * Splits an argument into flag and value, and completes the flag if it is abbreviated. Leaves a flag as it is if an option has
 * that name.
 */
function completed(token: string, command: Command): [written: string, attached: string | undefined] | UsageError {
  const [written, attached] = split(token);
  if (!command.abbreviates || written === "--help" || findFlag(written, command)) return [written, attached];
  // Leave out the text after a dot, which is a key of a JSON value.
  const [head = "", ...keys] = written.split(".");
  const found = completionsOf(written.startsWith("--") ? head : token);
  if (found.length > 1) return { error: ambiguous(token, found) };
  const only: Completion | undefined = found[0];
  if (only === undefined) return [written, attached];
  if (only.attached !== undefined) return [only.flag, only.attached];
  return [[only.flag, ...keys].join("."), attached];
}

function findFlag(written: string, { names }: Command): FoundOption | undefined {
  if (written.startsWith("--")) return lookup(written.slice(2), names);
  const name = shortFlags[written.split(".")[0]!];
  return name === undefined ? undefined : lookup(name);
}

/** Returns the values of a flag that are separate arguments. `at`: index of the argument after the flag. */
function valuesFrom(argv: readonly string[], at: number, found: FoundOption): readonly string[] {
  if (isSwitch(found)) return [];
  const end = argv.findIndex((token, index) => index >= at && isFlag(token));
  const values = argv.slice(at, end < 0 ? argv.length : end);
  return found.option.arity === "list" ? values : values.slice(0, 1);
}

/** Returns the values of a flag, or undefined if their number is wrong. */
function textsOf(
  found: FoundOption,
  attached: string | undefined,
  rest: readonly string[],
): readonly string[] | undefined {
  const { arity } = found.option;
  if (isSwitch(found)) return attached === undefined ? [String(found.sets)] : undefined;
  const texts = attached === undefined ? rest : [attached];
  return texts.length > 0 || arity === "optional" ? texts : undefined;
}

function wrongCount(written: string, { name, option }: FoundOption, attached: string | undefined): UsageError {
  if (attached === undefined) return { error: `${written}: needs a value: ${option.accepts}` };
  const forms = option.arity === "toggle" ? `--${name} or --no-${name}` : `--${name}`;
  return { error: `${written}: takes no value, not "${attached}"; write ${forms}` };
}
