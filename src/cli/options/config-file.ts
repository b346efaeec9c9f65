/**
 * Reads options from the YAML file of --config. Its keys are those of the file of `vllm serve --config`: flags without leading
 * dashes.
 */
import type { Document, Node, Pair, Scalar, YAMLMap } from "yaml";
import {
  type Command,
  inRole,
  type OptionInput,
  optionInput,
  SERVE,
  type UsageError,
  unknown,
  wrongValue,
} from "./given.ts";
import { type FoundOption, lookup } from "./lookup.ts";
import { type Option, ownValue } from "./option.ts";
import { tritonKey } from "./triton-server-config.ts";

/**
 * The sections that a configuration file may have, as TensorRT-LLM's file (`--extra_llm_api_options`) has them. A key in a
 * section is the name of an option. A section lists the keys for which the option has another name: `dtype` in
 * `kv_cache_config` is the option `kv-cache-dtype`.
 */
const SECTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  kv_cache_config: { dtype: "kv-cache-dtype" },
  scheduler_config: {},
};

/**
 * Parses the configuration file. `path`: path of the file, for messages. `role`: role from the command line; undefined if the
 * file may set the role.
 */
export function parseConfigFile(text: string, path: string, role?: string): readonly OptionInput[] | UsageError {
  const mapping = yamlMapping(text, path);
  if ("error" in mapping) return mapping;
  const { isMap, isScalar } = require("yaml") as typeof import("yaml");
  const { pairs, keyOf } = mapping;
  const roleName = role ?? roleOf(mapping)?.role;
  const command = inRole(SERVE, roleName);
  const isTriton = roleName === "triton";
  return optionsIn(pairs);

  function optionsIn(
    items: readonly Pair[],
    names: Readonly<Record<string, string>> = {},
  ): readonly OptionInput[] | UsageError {
    const said: OptionInput[] = [];
    for (const item of items) {
      const section =
        !isTriton && isScalar(item.key) && isMap(item.value) ? ownValue(SECTIONS, String(item.key.value)) : undefined;
      const found = section ? optionsIn((item.value as YAMLMap).items, section) : optionOf(item, names);
      if ("error" in found) return found;
      said.push(...found);
    }
    return said;
  }

  function optionOf(pair: Pair, names: Readonly<Record<string, string>>): readonly OptionInput[] | UsageError {
    const { value } = pair;
    const { name, where } = keyOf(pair);
    const found = isTriton ? tritonKey(name, where) : serveKey(ownValue(names, name) ?? name, where, command);
    if ("error" in found) return found;
    if (found.name === "config") return { error: `${where}: a configuration file cannot name another one` };
    const texts = found.ignored ? [] : textsOf(found, value as Node | null);
    if (texts === undefined) return wrongValue(where, found.option.accepts, written(value as Node | null));
    return [optionInput(found, texts, where)];
  }

  /**
   * Returns the values as texts, or undefined if the option does not accept such a value. A number keeps its spelling, because
   * flags do not accept 1e3 or 1.0 as whole numbers.
   */
  function textsOf({ option, sets }: FoundOption, value: Node | null): readonly string[] | undefined {
    if (option.arity === "toggle" || option.arity === "switch") {
      return isScalar(value) && typeof value.value === "boolean" ? [String(value.value === sets)] : undefined;
    }
    const items = option.arity === "list" && value && "items" in value ? (value.items as Node[]) : [value];
    const texts = items.map((item) => (isScalar(item) ? scalarText(item, option) : undefined));
    return texts.length > 0 && texts.every((text) => text !== undefined) ? texts : undefined;
  }

  function written(value: Node | null): string {
    return text
      .slice(value?.range?.[0] ?? 0, value?.range?.[1] ?? 0)
      .split("\n")[0]!
      .trim();
  }
}

function serveKey(name: string, where: string, command: Command): FoundOption | UsageError {
  const found = name.includes(".") ? undefined : lookup(name, command.names);
  return found ?? unknown(where, "key", name, command);
}

export interface YamlMapping {
  readonly document: Document;
  /** Pairs of the mapping. Empty if the file is empty. */
  readonly pairs: readonly Pair[];
  /** Returns the name and the place of a pair's key, for messages. */
  readonly keyOf: (pair: Pair) => { readonly name: string; readonly where: string };
}

/**
 * Parses a configuration file as a YAML mapping: our own file, and that of llm-d-inference-sim. `path`: path of the file, for
 * messages. Finds keys that are written twice, because the YAML library compares each key with every other key and then needs
 * minutes for 100,000 keys.
 */
export function yamlMapping(text: string, path: string): YamlMapping | UsageError {
  // Load the YAML library only if there is a file, because loading takes longer than the rest of the configuration.
  const { LineCounter, isMap, isScalar, parseDocument, visit } = require("yaml") as typeof import("yaml");
  const lines = new LineCounter();
  // Without a log level, the library prints a warning about a key that is a list.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
    logLevel: "error",
  });
  const lineAt = (offset: number) => `${path}:${lines.linePos(offset).line}`;
  const broken = document.errors[0];
  if (broken) {
    const why = broken.code === "MULTIPLE_DOCS" ? "more than one document" : broken.message.replaceAll("\n", " ");
    return { error: `${lineAt(broken.pos[0])}: not YAML: ${why}` };
  }
  const repeated: Node[] = [];
  visit(document, {
    Map(_, { items }) {
      const seen = new Set<unknown>();
      for (const { key } of items) if (isScalar(key) && seen.size === seen.add(key.value).size) repeated.push(key);
    },
  });
  const [second] = repeated;
  if (second !== undefined) return { error: `${lineAt(second.range![0])}: not YAML: the key is written twice` };
  const { contents } = document;
  if (contents !== null && !isMap(contents))
    return { error: `${path}:1: takes a mapping of options, as in "port: 8000"` };
  const keyOf = ({ key }: Pair) => {
    const name = String(isScalar(key) ? key.value : key);
    return { name, where: `${lineAt((key as Node).range![0])}: ${name}` };
  };
  return { document, pairs: contents?.items ?? [], keyOf };
}

interface RoleInFile {
  readonly role: string;
  /** Place of the key, for messages. */
  readonly where: string;
}

/** Returns the value of the key `role`, or undefined if the file lacks the key or is no mapping. */
export function roleInFile(text: string, path: string): RoleInFile | undefined {
  const mapping = yamlMapping(text, path);
  return "error" in mapping ? undefined : roleOf(mapping);
}

function roleOf({ pairs, keyOf }: YamlMapping): RoleInFile | undefined {
  const pair = pairs.find((candidate) => keyOf(candidate).name === "role");
  const role = (pair?.value as Partial<Scalar> | null | undefined)?.value;
  return pair && typeof role === "string" ? { role, where: keyOf(pair).where } : undefined;
}

function scalarText({ value, source }: Scalar, { metavar }: Option): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" && metavar === "BOOLEAN") return String(value);
  return typeof value === "number" ? (source ?? String(value)) : undefined;
}
