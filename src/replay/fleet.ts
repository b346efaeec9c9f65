/** How does a request of a trace reach the engines? Its length is checked as the front would, its content becomes hashes. */
import type { VirtualClock } from "../clock.ts";
import type { EngineConfig } from "../config/types.ts";
import type { Engine } from "../engine/engine.ts";
import { Fleet as Ranks } from "../engine/fleet.ts";
import type { Observer } from "../engine/observer.ts";
import { type EngineSnapshot, Finish, type LoopSnapshot, type Receiver } from "../engine/types.ts";
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
  readonly #ranks: Ranks;
  readonly #config: EngineConfig;
  readonly #clock: VirtualClock;
  readonly #receiver: Receiver;
  readonly #hashes: PromptHashes;
  /** Requests are held back before the queue, and with them their prompts. */
  readonly #keeps: boolean;
  #order = 0;
  #live = 0;

  constructor({ config, clock, module, engines, onEnd, onStep, observer }: FleetOptions) {
    this.#config = config;
    this.#clock = clock;
    this.#hashes = new PromptHashes(config.blockSize);
    this.#keeps = config.timing.kind === "constant";
    // Drawn ids stay clear of 0, so nothing ends before its traced length.
    const common = { engines, config, clock, module, eosId: 0, free: false, onStep };
    this.#ranks = new Ranks(observer ? { ...common, observer } : common);
    this.#receiver = {
      endsOnly: true,
      onTokens: (_ids, _at, _count, finish) => {
        this.#live--;
        onEnd(finish === Finish.Error);
      },
    };
  }

  get engines(): readonly Engine[] {
    return this.#ranks.engines;
  }

  /** Requests taken and not ended. */
  get live(): number {
    return this.#live;
  }

  /** True: taken as it is; "cut": the context leaves less room than its output; else refused as vLLM's front refuses it. */
  submit(request: TraceRequest): true | "cut" | Refused {
    const { maxModelLen } = this.#config;
    const { promptTokens, outputTokens } = request;
    // vLLM 0.33 `renderers/params.py` and `get_max_tokens`: at least one token must be left to generate.
    if (promptTokens >= maxModelLen || outputTokens > maxModelLen) return "tooLong";
    const room = maxModelLen - promptTokens;
    const order = this.#order++;
    const words = this.#hashes.of(request, order);
    const answer = this.#ranks.submit(
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
      this.#receiver,
    );
    if ("refused" in answer) return "busy";
    this.#live++;
    return outputTokens > room ? "cut" : true;
  }

  snapshots(): EngineSnapshot[] {
    return this.#ranks.snapshots();
  }

  /** Of all engines together. */
  lateness(): LoopSnapshot {
    return this.#ranks.lateness();
  }
}
