/** Which models does the OpenAI front end find, how is each asked, and who may be named? `triton_engine.py` (2026). */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelVersion } from "../inference/served.ts";
import type { TritonServer } from "../inference/server.ts";
import { isLlmApi, type ModelConfig } from "../model-config/model-config.ts";

/** Whose tensors a request has. */
export type RequestFormat = "vllm" | "trtllm" | "llmapi";

export interface OpenAiModel {
  readonly served: ModelVersion;
  readonly format: RequestFormat;
  /** As the front end names it: of an ensemble "ensemble". */
  readonly backend: string;
  /** null: its adapters are not known. */
  readonly adapters: readonly string[] | null;
}

/** `override`: `--backend`; "": by each model's own. */
export function openAiModel(served: ModelVersion, folder: string, override: string): OpenAiModel {
  const { config } = served;
  const backend = config.backend || (config.platform ?? "");
  const vllm = (override || backend) === "vllm";
  const format = vllm ? "vllm" : isLlmApi(config) ? "llmapi" : "trtllm";
  return { served, format, backend, adapters: vllm ? adaptersIn(folder) : null };
}

/** Names of `multi_lora.json`, where `model.json` switches adapters on. */
function adaptersIn(folder: string): readonly string[] | null {
  const read = (file: string): Readonly<Record<string, unknown>> | null => {
    const path = join(folder, file);
    try {
      return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
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
  readonly #server: TritonServer;
  readonly #override: string;
  readonly #separator: string;

  constructor(server: TritonServer, override: string, separator: string) {
    this.#server = server;
    this.#override = override;
    this.#separator = separator;
  }

  /** Those of a name, or all; an adapter's list is read from its model's folder. */
  #models(name?: string): OpenAiModel[] {
    return this.#server.counted.flatMap(({ served, folder }) =>
      served === null || (name !== undefined && served.name !== name)
        ? []
        : [openAiModel(served, join(folder.path, `${served.version}`), this.#override)],
    );
  }

  /** Each with its adapters behind it. */
  get names(): string[] {
    const separator = this.#separator;
    return this.#models().flatMap(({ served: { name }, adapters }) => [
      name,
      ...(separator === "" ? [] : (adapters ?? []).map((adapter) => `${name}${separator}${adapter}`)),
    ]);
  }

  find(asked: string): NamedModel {
    const parts = this.#separator === "" ? [asked] : asked.split(this.#separator);
    const [name = "", adapter = null] = parts.length === 2 ? parts : [asked];
    return { model: this.#models(name).at(-1) ?? null, adapter };
  }
}

/** Inputs that a model has. */
export const hasInput = ({ input }: ModelConfig, name: string): boolean =>
  input?.some((one) => one.name === name) === true;
