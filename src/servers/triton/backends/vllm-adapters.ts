/** Which LoRA adapters has a model of the vLLM backend? `_verify_loras` of its `model.py` (January 2026). */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { reprString } from "../../pydantic/repr.ts";
import type { ModelHost } from "../behaviours/behaviour.ts";

/** Why there is no such adapter; null: there is. `model.json` switches adapters on, `multi_lora.json` names them. */
export function wrongAdapter(name: unknown, { folder }: ModelHost): string | null {
  if (name === null) return null;
  const read = (file: string): Readonly<Record<string, unknown>> => {
    const path = join(folder, file);
    return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
  };
  if (String(read("model.json").enable_lora).toLowerCase() !== "true") return "LoRA feature is not enabled.";
  const names = Object.keys(read("multi_lora.json"));
  if (names.some((one) => one === name)) return null;
  return `LoRA ${name} is not supported, we currently support [${names.map(reprString).join(", ")}]`;
}
