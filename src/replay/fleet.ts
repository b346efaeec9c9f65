/** Which engine takes the next request? The one with the fewest under way, the first of equals; all share one clock. */
import type { VirtualClock } from "../clock.ts";
import type { EngineConfig } from "../config/types.ts";
import { Engine } from "../engine/engine.ts";
import type { Observer } from "../engine/observer.ts";
import { type EngineSnapshot, Finish, type Receiver } from "../engine/types.ts";
import type { TraceRequest } from "../traces/trace.ts";
import { PromptHashes } from "./hashes.ts";

/** What became of a request that was not taken. */
export type Refused = "tooLong" | "busy";

export interface FleetOptions {
  readonly config: EngineConfig;
  readonly clock: VirtualClock;
  readonly module: WebAssembly.Module;
  readonly engines: number;
  /** A request ended; `refused` when that is because the engine had no room for it after all. */
  readonly onEnd: (refused: boolean) => void;
  /** A step's outcome is handed out and the next is not planned yet: what is submitted now belongs to that one. */
  readonly onStep: () => void;
  /** Of the engine with this index, where somebody keeps the truth. */
  readonly observer: ((engine: number) => Observer) | null;
}

export class Fleet {
  readonly engines: readonly Engine[];
  readonly #config: EngineConfig;
  readonly #clock: VirtualClock;
  readonly #live: Int32Array;
  readonly #receivers: readonly Receiver[];
  readonly #hashes: PromptHashes;
  /** Requests are held back before the queue, and with them their prompts. */
  readonly #keeps: boolean;
  #order = 0;

  constructor({ config, clock, module, engines, onEnd, onStep, observer }: FleetOptions) {
    this.#config = config;
    this.#clock = clock;
    this.#live = new Int32Array(engines);
    this.#hashes = new PromptHashes(config.blockSize);
    this.#keeps = config.timing.kind === "constant";
    // Drawn ids stay clear of 0, so nothing ends before its traced length.
    const common = { config, clock, module, eosId: 0, free: false, onStep };
    this.engines = Array.from(
      { length: engines },
      (_, index) => new Engine(observer ? { ...common, observer: observer(index) } : common),
    );
    this.#receivers = this.engines.map((_, index) => ({
      endsOnly: true,
      onTokens: (_ids, _at, _count, finish) => {
        this.#live[index]!--;
        onEnd(finish === Finish.Error);
      },
    }));
  }

  /** Requests taken and not ended. */
  get live(): number {
    let sum = 0;
    for (const live of this.#live) sum += live;
    return sum;
  }

  /** True: taken as it is; "cut": the context leaves less room than its output; else refused as vLLM's front refuses it. */
  submit(request: TraceRequest): true | "cut" | Refused {
    const { maxModelLen } = this.#config;
    const { promptTokens, outputTokens } = request;
    // vLLM 0.33 `renderers/params.py` and `get_max_tokens`: at least one token must be left to generate.
    if (promptTokens >= maxModelLen || outputTokens > maxModelLen) return "tooLong";
    const room = maxModelLen - promptTokens;
    const at = this.#leastLoaded();
    const order = this.#order++;
    const words = this.#hashes.of(request, order);
    const answer = this.engines[at]!.submit(
      {
        promptIds: this.#keeps ? words.slice() : words,
        promptTokens,
        maxTokens: Math.min(outputTokens, room),
        minTokens: 0,
        ignoreEos: true,
        plannedTokens: null,
        stopTokenIds: [],
        seed: order,
        priority: 0,
        cacheSalt: "",
        skipReadingPrefixCache: false,
        arrivalUs: this.#clock.now(),
      },
      this.#receivers[at]!,
    );
    if ("refused" in answer) return "busy";
    this.#live[at]!++;
    return outputTokens > room ? "cut" : true;
  }

  snapshots(): EngineSnapshot[] {
    return this.engines.map((engine) => engine.snapshot());
  }

  #leastLoaded(): number {
    const live = this.#live;
    let least = 0;
    for (let at = 1; at < live.length; at++) if (live[at]! < live[least]!) least = at;
    return least;
  }
}
