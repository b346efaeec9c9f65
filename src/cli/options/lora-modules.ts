/** Reads the LoRA adapters of `--lora-modules` as vLLM 0.33 does (`LoRAParserAction`, `entrypoints/common/cli_args.py`). */
import { jsonObjectIn } from "../../base/json-object.ts";
import type { LoraModule } from "../../kernel/kernel-config.ts";
import type { Option } from "./option.ts";

const FIELDS = ["name", "path", "base_model_name", "is_3d_lora_weight"];

/** Option whose values are adapters and stay texts. An empty text is accepted and ignored. */
export const loraModules: Option<readonly string[]> = {
  arity: "list",
  accepts: 'one or more of name=path or {"name": …, "path": …, "base_model_name": …}',
  metavar: "NAME=PATH",
  read: (texts) => (texts.every((text) => text === "" || readModule(text) !== undefined) ? texts : undefined),
};

export function readLoraModules(texts: readonly string[]): LoraModule[] {
  return texts.filter((text) => text !== "").map((text) => readModule(text)!);
}

/**
 * Returns an error message if vLLM would not start with the adapters, else undefined. `where`: place of the option, for the
 * message.
 */
export function brokenLora(
  modules: readonly LoraModule[],
  enabled: boolean,
  served: readonly string[],
  where: string,
): string | undefined {
  if (modules.length > 0 && !enabled) return `${where}: adapters need --enable-lora`;
  const names = modules.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) return `${where}: "${twice}" is named twice; names of adapters must be unique`;
  const taken = names.find((name) => served.includes(name));
  if (taken !== undefined) return `${where}: "${taken}" is the name of the model; an adapter needs another name`;
  return undefined;
}

function readModule(text: string): LoraModule | undefined {
  const equals = text.indexOf("=");
  if (equals >= 0 && !text.includes(","))
    return moduleOf({ name: text.slice(0, equals), path: text.slice(equals + 1) });
  return moduleOf(jsonObjectIn(text));
}

function moduleOf(value: Readonly<Record<string, unknown>> | null): LoraModule | undefined {
  if (value === null || Object.keys(value).some((key) => !FIELDS.includes(key))) return undefined;
  const { name, path, base_model_name: base = null } = value;
  const isText = (field: unknown) => typeof field === "string" && field !== "";
  if (!isText(name) || !isText(path) || !(base === null || typeof base === "string")) return undefined;
  return { name: name as string, path: path as string, baseModelName: base || null };
}
