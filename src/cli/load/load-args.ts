/**
 * Parses the command line of `understudy load`. Translates the option names of other tools, and joins the values of an option
 * that may be repeated.
 */
import type { UsageError } from "../options/given.ts";
import { nearest } from "../options/lookup.ts";
import { ownValue, splitAtEquals } from "../options/option.ts";
import { takeOptions } from "../options/take-options.ts";
import { type LoadValues, loadAliases, loadOptions, loadShortFlags } from "./load-options.ts";

export interface LoadArguments {
  readonly values: LoadValues;
  readonly help: boolean;
}

/** The values of aiperf's --endpoint-type, with vLLM's name of the same backend. */
const ENDPOINT_TYPES: Readonly<Record<string, string>> = {
  chat: "openai-chat",
  completions: "openai",
  responses: "openai-responses",
  messages: "anthropic-messages",
  embeddings: "openai-embeddings",
};

export function takeLoadArguments(argv: readonly string[]): LoadArguments | UsageError {
  const words: string[] = [];
  const lists = new Map<string, string[]>();
  for (let at = 0; at < argv.length; at++) {
    const typed = loadShortFlags[argv[at]!] ?? argv[at]!;
    if (!typed.startsWith("--") || typed === "--help") {
      words.push(typed);
      continue;
    }
    let [flag, value] = splitAtEquals(typed);
    const written = flag.slice(2).replaceAll("_", "-");
    if (written === "endpoint-type") {
      value ??= argv[++at];
      const backend = ownValue(ENDPOINT_TYPES, value ?? "");
      if (backend === undefined) {
        const accepted = Object.keys(ENDPOINT_TYPES).join(" or ");
        return { error: `--endpoint-type: takes ${accepted}, not "${value ?? ""}"` };
      }
      words.push(`--backend=${backend}`);
      continue;
    }
    const name = Object.hasOwn(loadAliases, written) ? loadAliases[written]! : written;
    const option = Object.hasOwn(loadOptions, name) ? loadOptions[name as keyof typeof loadOptions] : undefined;
    if (option?.arity === "list") {
      const list = lists.get(name) ?? [];
      if (value !== undefined) list.push(value);
      else while (at + 1 < argv.length && !argv[at + 1]!.startsWith("-")) list.push(argv[++at]!);
      if (list.length === 0) return { error: `--${written}: needs a value: ${option.accepts}` };
      lists.set(name, list);
    } else {
      words.push(value === undefined ? `--${name}` : `--${name}=${value}`);
      // Take the value here together with its flag, so that a value that begins with dashes does not count as a flag.
      if (option?.arity === "one" && value === undefined && at + 1 < argv.length) words.push(argv[++at]!);
    }
  }
  for (const [name, list] of lists) {
    const option = loadOptions[name as keyof typeof loadOptions];
    if (option.read([JSON.stringify(list)]) === undefined)
      return { error: `--${name}: takes ${option.accepts}, not "${list.join(" ")}"` };
    words.push(`--${name}=${JSON.stringify(list)}`);
  }
  const taken = takeOptions(loadOptions, words);
  if ("error" in taken) return taken;
  const unknownWord = taken.rest.find((word) => word !== "--help");
  if (unknownWord !== undefined) return unknown(unknownWord);
  return { values: taken.values, help: taken.rest.length > 0 };
}

function unknown(word: string): UsageError {
  if (!word.startsWith("-")) return { error: `"${word}": unexpected argument; --url names the server` };
  const flag = word.split("=", 1)[0]!;
  const near = nearest(flag.replace(/^-+/, ""), [...Object.keys(loadOptions), ...Object.keys(loadAliases)]);
  const hint = near.length > 0 ? `; did you mean ${near.map((name) => `--${name}`).join(" or ")}?` : "";
  return { error: `${flag}: unknown flag${hint} (understudy load --help lists the options)` };
}
