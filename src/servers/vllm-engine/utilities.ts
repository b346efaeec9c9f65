/**
 * Answers the calls of a front end to functions of the engine. Source: `EngineCore` in `vllm/v1/engine/core.py`, vLLM 0.33.0.
 */
import type { EngineControl } from "../../kernel/engine-control.ts";
import type { EngineAdapters } from "./adapters.ts";
import type { UtilityOutput } from "./messages/outputs.ts";
import { loraOf, type UtilityCall } from "./messages/request.ts";

/** Parts of the engine that sleep. `wake_up` can wake each of them alone. */
const TAGS = ["weights", "kv_cache"] as const;
const PAUSE_MODES = ["abort", "wait", "keep"] as const;
type PauseMode = (typeof PAUSE_MODES)[number];

const modeOf = (value: unknown): PauseMode => PAUSE_MODES.find((mode) => mode === value) ?? "abort";

/** Functions by name. Each takes the arguments of the call and returns the result as JSON, or a promise of it. */
type Functions = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;

function functionsOf(engines: EngineControl, adapters: EngineAdapters, takesAdapters: boolean): Functions {
  let weightVersion: string | null = null;
  return {
    get_supported_tasks: () => ["generate"],
    reset_prefix_cache: (running) => engines.resetPrefixCache(running === true),
    // There are no images, so that their caches are always empty.
    reset_mm_cache: () => null,
    reset_encoder_cache: () => null,
    async pause_generation(mode, clearsCache) {
      await engines.pause(modeOf(mode), clearsCache !== false);
      return null;
    },
    async resume_scheduler() {
      await engines.resume();
      return null;
    },
    is_scheduler_paused: () => engines.paused,
    async sleep(level, mode) {
      const depth = typeof level === "number" ? level : 1;
      await engines.pause(modeOf(mode), depth > 0);
      await engines.sleeps(depth + 1, TAGS);
      return null;
    },
    async wake_up(tags) {
      const woken: readonly unknown[] = Array.isArray(tags) ? tags : TAGS;
      const asleep = engines.asleep.filter((tag) => !woken.includes(tag));
      if (asleep.length === 0) await engines.resume();
      await engines.sleeps(0, asleep);
      return asleep.length === 0;
    },
    is_sleeping: () => engines.asleep.length > 0,
    add_lora(lora) {
      if (!takesAdapters) throw new Error("LoRA is not enabled. Use --enable-lora to enable LoRA.");
      return adapters.load(loraOf(lora)) !== null;
    },
    remove_lora: (id) => adapters.remove(Number(id)),
    pin_lora: (id) => adapters.has(Number(id)),
    list_loras: () => adapters.ids,
    get_weight_version: () => weightVersion,
    set_weight_version(version) {
      weightVersion = version === null || version === undefined ? null : String(version);
      return null;
    },
    // There are no workers, so that none answers.
    collective_rpc: () => [],
    release_kv_cache_memory: () => null,
    profile: () => null,
  };
}

export class Utilities {
  #functions: Functions;

  /** `takesAdapters`: false without `--enable-lora`. */
  constructor(
    private readonly engines: EngineControl,
    private readonly adapters: EngineAdapters,
    private readonly takesAdapters: boolean,
  ) {
    this.#functions = functionsOf(engines, adapters, takesAdapters);
  }

  /** Undoes what an earlier front end has left: a pause, sleep, adapters and the version of the weights. */
  async reset(): Promise<void> {
    this.#functions = functionsOf(this.engines, this.adapters, this.takesAdapters);
    this.adapters.clear();
    if (this.engines.asleep.length > 0) await this.engines.sleeps(0, []);
    if (this.engines.paused) await this.engines.resume();
  }

  /**
   * Calls the function. A function that is not known, or that fails, is answered with a failure, because an unanswered call
   * would hang the front end.
   */
  async answer({ call_id, method, args }: UtilityCall): Promise<UtilityOutput> {
    const failed = (why: string) => ({ call_id, failure: `Call to ${method} method failed: ${why}`, result: null });
    if (!Object.hasOwn(this.#functions, method)) return failed("this engine does not have it");
    try {
      return { call_id, failure: null, result: await this.#functions[method]!(...args) };
    } catch (error) {
      return failed(error instanceof Error ? error.message : String(error));
    }
  }
}
