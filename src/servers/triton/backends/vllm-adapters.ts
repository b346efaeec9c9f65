/** Checks the LoRA adapter of a request to the vLLM backend. Source: `_verify_loras` in its `model.py` (January 2026). */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { reprString } from "../../pydantic/repr.ts";
import type { ModelHost } from "../behaviours/behaviour.ts";
import { modelText } from "../models/model-file.ts";

/** Returns the error for an unavailable adapter, or null. `model.json` enables adapters and `multi_lora.json` lists them. */
export function wrongAdapter(name: unknown, { folder }: ModelHost): string | null {
  if (name === null) return null;
  const read = (file: string): Readonly<Record<string, unknown>> => {
    const path = join(folder, file);
    return existsSync(path) ? JSON.parse(modelText(path)) : {};
  };
  if (String(read("model.json").enable_lora).toLowerCase() !== "true") return "LoRA feature is not enabled.";
  const names = Object.keys(read("multi_lora.json"));
  if (names.some((known) => known === name)) return null;
  return `LoRA ${name} is not supported, we currently support [${names.map(reprString).join(", ")}]`;
}
