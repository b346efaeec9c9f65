/** Finds the models of the OpenAI front end, their request formats and their adapters. Source: `triton_engine.py` (2026). */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ModelVersion } from "../inference/served.ts";
import type { TritonServer } from "../inference/server.ts";
import { isLlmApi } from "../model-config/model-config.ts";
import { modelText } from "../models/model-file.ts";

/** Tensor names of a request. */
export type RequestFormat = "vllm" | "trtllm" | "llmapi";

export interface OpenAiModel {
  readonly served: ModelVersion;
  readonly format: RequestFormat;
  /** Backend name in the front end. "ensemble" for an ensemble. */
  readonly backend: string;
  /** Names of the LoRA adapters, or null if they are unknown. */
  readonly adapters: readonly string[] | null;
}

/** Describes a model. `override`: value of `--backend`, or "". */
export function openAiModel(served: ModelVersion, folder: string, override: string): OpenAiModel {
  const { config } = served;
  const backend = config.backend || (config.platform ?? "");
  const vllm = (override || backend) === "vllm";
  const format = vllm ? "vllm" : isLlmApi(config) ? "llmapi" : "trtllm";
  return { served, format, backend, adapters: vllm ? adaptersIn(folder) : null };
}

/** Reads the names in `multi_lora.json` if `model.json` enables adapters. Returns null otherwise. */
function adaptersIn(folder: string): readonly string[] | null {
  const read = (file: string): Readonly<Record<string, unknown>> | null => {
    const path = join(folder, file);
    try {
      return existsSync(path) ? JSON.parse(modelText(path)) : null;
    } catch {
      return null;
    }
  };
  if (String(read("model.json")?.enable_lora).toLowerCase() !== "true") return null;
  const adapters = read("multi_lora.json");
  return adapters && Object.keys(adapters);
}

export interface NamedModel {
  readonly model: OpenAiModel | null;
  readonly adapter: string | null;
}

export class OpenAiModels {
  constructor(
    private readonly server: TritonServer,
    private readonly override: string,
    private readonly separator: string,
  ) {}

  /** Returns the models with this name, or all models. Reads adapters from the model's folder. */
  #models(name?: string): OpenAiModel[] {
    return this.server.counted.flatMap(({ served, folder }) =>
      served === null || (name !== undefined && served.name !== name)
        ? []
        : [openAiModel(served, join(folder.path, `${served.version}`), this.override)],
    );
  }

  /** Names of all models, each followed by those of its adapters. */
  get names(): string[] {
    const separator = this.separator;
    return this.#models().flatMap(({ served: { name }, adapters }) => [
      name,
      ...(separator === "" ? [] : (adapters ?? []).map((adapter) => `${name}${separator}${adapter}`)),
    ]);
  }

  find(asked: string): NamedModel {
    const parts = this.separator === "" ? [asked] : asked.split(this.separator);
    const [name = "", adapter = null] = parts.length === 2 ? parts : [asked];
    return { model: this.#models(name).at(-1) ?? null, adapter };
  }
}
