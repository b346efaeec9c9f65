/**
 * Reads the YAML file of llm-d-inference-sim. Its keys are the simulator's flags without dashes. Keys of our own file are
 * accepted too.
 */
import type { Node } from "yaml";
import { yamlMapping } from "../options/config-file.ts";
import { type OptionInput, optionInput, SERVE, type UsageError, unknown, wrongValue } from "../options/given.ts";
import { lookup } from "../options/lookup.ts";
import { KEYS, keyOf } from "./llm-d-keys.ts";
import type { KeyInput } from "./llm-d-timing.ts";

export interface YamlInput {
  readonly said: ReadonlyMap<string, KeyInput>;
  readonly ours: readonly OptionInput[];
}

export function fromYaml(config: KeyInput | null, readFile: (path: string) => string): YamlInput | UsageError {
  if (config === null) return { said: new Map(), ours: [] };
  const path = config.texts[0]!;
  try {
    return parse(readFile(path), path);
  } catch (failure) {
    const why = failure instanceof Error && "code" in failure ? String(failure.code) : String(failure);
    return { error: `${config.where}: cannot read "${path}" (${why})` };
  }
}

function parse(text: string, path: string): YamlInput | UsageError {
  const mapping = yamlMapping(text, path);
  if ("error" in mapping) return mapping;
  const { document, pairs, keyOf: keyAt } = mapping;
  const said = new Map<string, KeyInput>();
  const ours: OptionInput[] = [];
  for (const pair of pairs) {
    const { name, where } = keyAt(pair);
    const texts = textsOf((pair.value as Node | null)?.toJS(document));
    const found = lookup(name);
    const its = keyOf(name);
    const isSwitch = its && (its.key.takes === "switch" || its.key.takes === "toggle");
    if (isSwitch && !/^(true|false)$/.test(texts.join())) return wrongValue(where, "true or false", texts.join());
    if (its) said.set(its.name, { texts: its.sets ? texts : texts.map(opposite), where });
    else if (found && name !== "config") ours.push(optionInput(found, found.sets ? texts : texts.map(opposite), where));
    else return unknown(where, "key", name, { ...SERVE, own: Object.keys(KEYS).filter((key) => !lookup(key)) });
  }
  return { said, ours };
}

/** Returns the opposite of a truth value, for a key that begins with `no-`. */
const opposite = (text: string) => ({ true: "false", false: "true" })[text] ?? text;

/** Returns a value as texts. A list becomes one text per item, an object its JSON. */
function textsOf(value: unknown): string[] {
  if (value === null || value === undefined) return [];
  const items: unknown[] = Array.isArray(value) ? value : [value];
  return items.map((item) => (typeof item === "object" ? JSON.stringify(item) : String(item)));
}
