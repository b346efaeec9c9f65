/**
 * Reads options from the YAML file of --config. Its keys are those of the file of `vllm serve --config`: flags without leading
 * dashes.
 */
import type { Node, Pair, Scalar, YAMLMap } from "yaml";
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
 * Sections of TensorRT-LLM's configuration file (`--extra_llm_api_options`), by name. A section maps those of its keys that
 * differ from the name of their option to that name.
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
  // Load the YAML library only if there is a file, because loading takes longer than the rest of the configuration.
  const { LineCounter, isMap, isScalar, parseDocument } = require("yaml") as typeof import("yaml");
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => `${path}:${lines.linePos(offset).line}`;

  const broken = document.errors[0];
  if (broken) return { error: `${lineAt(broken.pos[0])}: not YAML: ${broken.message.replaceAll("\n", " ")}` };
  if (document.contents === null) return [];
  if (!isMap(document.contents)) return { error: `${path}:1: takes a mapping of options, as in "port: 8000"` };

  const ownRole = document.contents.get("role");
  const roleName = role ?? (typeof ownRole === "string" ? ownRole : undefined);
  const command = inRole(SERVE, roleName);
  const isTriton = roleName === "triton";
  return optionsIn(document.contents.items);

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

  function optionOf(
    { key, value }: Pair,
    names: Readonly<Record<string, string>>,
  ): readonly OptionInput[] | UsageError {
    const name = String(isScalar(key) ? key.value : key);
    const where = `${lineAt((key as Node).range![0])}: ${name}`;
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

/** Returns the value of the key `role`, or undefined if the file lacks the key or is no mapping. */
export function roleInFile(text: string): string | undefined {
  const { isMap, parseDocument } = require("yaml") as typeof import("yaml");
  const { contents } = parseDocument(text, { prettyErrors: false });
  const role = isMap(contents) ? contents.get("role") : undefined;
  return typeof role === "string" ? role : undefined;
}

function scalarText({ value, source }: Scalar, { metavar }: Option): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" && metavar === "BOOLEAN") return String(value);
  return typeof value === "number" ? (source ?? String(value)) : undefined;
}
