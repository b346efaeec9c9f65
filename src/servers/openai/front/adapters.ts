/**
 * Keeps the LoRA adapters that requests can name: those of `--lora-modules` and, with VLLM_ALLOW_RUNTIME_LORA_UPDATING, those
 * that requests load. Messages as in vLLM 0.33 (`openai/models/serving.py`, `serve/lora/api_router.py`).
 */
import { ADAPTERS_MOST } from "../../../base/core-limits.ts";
import type { LoraModule } from "../../../kernel/kernel-config.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { errorAnswer } from "../../pydantic/refusals.ts";

export class LoraAdapters {
  /** Names of adapters by number minus one. An unloaded adapter leaves "", because numbers are not used again. */
  readonly names: string[];
  /** Names of all adapters by number minus one, with those of unloaded adapters, because requests may still run with them. */
  readonly #allNames: string[];
  readonly #onLoad: ((names: readonly string[]) => void) | undefined;
  readonly #modules: (LoraModule | null)[];
  readonly #served: readonly string[];

  /** `served`: names of the base model. `onLoad`: called after an adapter got a new number, with all names by number. */
  constructor(modules: readonly LoraModule[], served: readonly string[], onLoad?: (names: readonly string[]) => void) {
    this.#onLoad = onLoad;
    this.#served = served;
    this.#modules = [...modules];
    this.names = modules.map(({ name }) => name);
    this.#allNames = [...this.names];
  }

  /** Returns the loaded adapters in the order of their numbers. */
  get list(): readonly LoraModule[] {
    return this.#modules.filter((module) => module !== null);
  }

  /** Returns the adapter with this number, from 1, which must be loaded. */
  byNumber(number: number): LoraModule {
    return this.#modules[number - 1]!;
  }

  /** Loads an adapter. `inPlace`: may replace a loaded one of the same name. Returns vLLM's text of success, or an error. */
  load({ name, path, inPlace }: { name: string; path: string; inPlace: boolean }): ErrorAnswer | string {
    if (name === "" || path === "") return wrong("Both 'lora_name' and 'lora_path' must be provided.");
    if (this.#served.includes(name)) return wrong(`The lora adapter '${name}' conflicts with a served base model.`);
    const at = this.names.indexOf(name);
    if (at >= 0 && !inPlace)
      return wrong(
        `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
      );
    if (at < 0 && this.names.length >= ADAPTERS_MOST)
      return wrong(`No more than ${ADAPTERS_MOST} adapters can be loaded.`);
    const module = { name, path, baseModelName: null };
    if (at >= 0) this.#modules[at] = module;
    else {
      this.#modules.push(module);
      this.names.push(name);
      this.#allNames.push(name);
      this.#onLoad?.(this.#allNames);
    }
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  /** Unloads an adapter. Returns vLLM's text of success, or an error. */
  unload(name: string): ErrorAnswer | string {
    if (name === "") return wrong("'lora_name' needs to be provided to unload a LoRA adapter.");
    const at = this.names.indexOf(name);
    if (at < 0) return errorAnswer(`The lora adapter '${name}' cannot be found.`, "NotFoundError", null, 404);
    this.names[at] = "";
    this.#modules[at] = null;
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }
}

const wrong = (message: string) => errorAnswer(message, "InvalidUserInput", null, 400);
