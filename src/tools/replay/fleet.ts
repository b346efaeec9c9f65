/** Submits the requests of a trace to engines. Checks their length like the server, and turns their prompts into block hashes. */

import type { Cancel } from "../../base/clock.ts";
import type { VirtualClock } from "../../base/virtual-clock.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import type { Engine } from "../../engine/engine.ts";
import { Fleet as Ranks } from "../../engine/fleet.ts";
import type { RequestMeters } from "../../engine/interface/request-meter.ts";
import {
  type EngineSnapshot,
  type EngineView,
  Finish,
  type LoopView,
  type Receiver,
  type Submission,
} from "../../engine/interface/types.ts";
import type { Observer } from "../../engine/observer.ts";
import type { Fresh } from "../../engine/snapshot.ts";
import { holdUs } from "../../engine/timing/timing.ts";
import type { TraceRequest } from "../../workloads/trace.ts";
import { clients, type TracedClient, type TracedClientOptions } from "./clients.ts";
import { PromptHashes } from "./hashes.ts";

/** Reason why a request was refused. `busy`: the queue is full. */
export type ArrivalRefusal = "tooLong" | "busy";

/** Receives the end of a request that arrived at `arrivalUs`, and the name of its conversation, if it has one. */
type RequestEnd = (reason: Finish, arrivalUs: number, conversation: string | undefined) => void;

export interface TracedFleetOptions {
  readonly config: EngineConfig;
  readonly clock: VirtualClock;
  readonly module: WebAssembly.Module;
  readonly engines: number;
  readonly clients: TracedClientOptions;
  /** Prompt tokens per hash id of the trace; absent: 512. */
  readonly hashBlockTokens?: number;
  /** Called at the end of each request. Reason `Error`: the KV pool was too small. `Abort`: the client disconnected. */
  readonly onEnd: RequestEnd;
  /** Called after a step has been delivered and before the next is planned. Requests submitted now join the next step. */
  readonly onStep: () => void;
  /** Returns the observer of the engine with this index; null: no observers. */
  readonly observer: ((engine: number) => Observer) | null;
  /** Returns the meters of the engine with this index, which count generations for Triton's metrics; null: no meters. */
  readonly meters: ((engine: number) => RequestMeters) | null;
  /** Called before each update with its time; null: not called. */
  readonly beforeUpdate: ((nowUs: number) => void) | null;
}

export class TracedFleet {
  readonly #ranks: Ranks;
  readonly #client: () => TracedClient;
  readonly #hashes: PromptHashes;
  /** True if requests wait before the queue (request overhead), so that prompts must be copied from the shared buffer. */
  readonly #keeps: boolean;
  #order = 0;
  #live = 0;

  constructor(private readonly options: TracedFleetOptions) {
    const { config, clock, module, engines, onStep, observer, meters, beforeUpdate } = options;
    this.#hashes = new PromptHashes(config.blockSize, options.hashBlockTokens);
    this.#keeps = holdUs(config.timing) > 0;
    // Generated ids are never 0, so no answer ends before its traced length.
    const common = { engines, config, clock, module, eosId: 0, free: false };
    this.#ranks = new Ranks({
      ...common,
      ...(observer ? { observer } : {}),
      ...(meters ? { meters } : {}),
      loopObservers: [
        { delivered: ({ rows }) => void (rows > 0 && onStep()), coasted: () => {} },
        ...(beforeUpdate ? [{ updating: beforeUpdate }] : []),
      ],
    });
    this.#client = clients(options.clients);
  }

  get engines(): readonly Engine[] {
    return this.#ranks.engines;
  }

  /** Number of running requests. */
  get live(): number {
    return this.#live;
  }

  /**
   * Submits a request. Returns true, "cut" if the context limit shortens its output, or the reason for which vLLM's server would
   * refuse it.
   */
  submit(request: TraceRequest): true | "cut" | ArrivalRefusal {
    const { maxModelLen } = this.options.config;
    const { promptTokens, outputTokens } = request;
    // vLLM 0.33 `renderers/params.py` and `get_max_tokens`: at least one token must be left to generate.
    if (promptTokens >= maxModelLen || outputTokens > maxModelLen) return "tooLong";
    const room = maxModelLen - promptTokens;
    const order = this.#order++;
    const words = this.#hashes.of(request, order);
    const { stops, leavesAfterUs } = this.#client();
    const ends = stops && outputTokens <= room;
    const arrivalUs = this.options.clock.now();
    const stream = new Stream(this.#ended, arrivalUs, request.conversation);
    const answer = this.#ranks.submit(
      {
        promptIds: this.#keeps ? words.slice() : words,
        promptTokens,
        maxTokens: Math.min(ends ? 2 * outputTokens : outputTokens, room),
        minTokens: 0,
        ignoreEos: !ends,
        plannedTokens: ends ? outputTokens : null,
        stopTokenIds: [],
        seed: order,
        priority: 0,
        cacheSalt: "",
        adapter: request.adapter ?? 0,
        skipReadingPrefixCache: false,
        arrivalUs,
      },
      stream,
    );
    if ("refused" in answer) return "busy";
    this.#live++;
    if (leavesAfterUs < Number.POSITIVE_INFINITY) stream.leaveAt(arrivalUs + leavesAfterUs, answer, this.options.clock);
    return outputTokens > room ? "cut" : true;
  }

  snapshots(): EngineSnapshot[] {
    return this.#ranks.snapshots();
  }

  /** Returns the live lateness of all engines together, not a copy. */
  lateness(): LoopView {
    return this.#ranks.latenessView();
  }

  /** Returns the live numbers of each engine. `snapshots` returns copies. */
  views(fresh: Fresh): EngineView[] {
    return this.#ranks.views(fresh);
  }

  readonly #ended: RequestEnd = (reason, arrivalUs, conversation) => {
    this.#live--;
    this.options.onEnd(reason, arrivalUs, conversation);
  };
}

/** Receives an answer for its client, and cancels it if the client disconnects. */
class Stream implements Receiver {
  readonly endsOnly = true;
  readonly streams = true;
  /** Cancels the timer of the disconnect; null: the client waits for the end. */
  #cancelTimer: Cancel | null = null;

  constructor(
    private readonly ended: RequestEnd,
    private readonly arrivalUs: number,
    private readonly conversation: string | undefined,
  ) {}

  /** Disconnects the client at `dueUs`, unless the answer ends before. */
  leaveAt(dueUs: number, answer: Submission, clock: VirtualClock): void {
    this.#cancelTimer = clock.at(dueUs, () => {
      answer.cancel();
      this.ended(Finish.Abort, this.arrivalUs, this.conversation);
    });
  }

  onTokens(_ids: Int32Array, _at: number, _count: number, finish: Finish | null): void {
    this.#cancelTimer?.();
    this.ended(finish!, this.arrivalUs, this.conversation);
  }
}
