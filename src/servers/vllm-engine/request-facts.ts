/** Makes the facts about a request that travel with its outputs: when it was queued, scheduled and preempted, and its prompt. */
import type { Submission, TimelineFacts } from "../../engine/interface/types.ts";
import { type EngineCoreEvent, EventType, type PrefillStats } from "./messages/outputs.ts";

/** Numbers of an entry of `TimelineFacts.preempted`: time, time of the re-admission, cached tokens. */
const ENTRY = 3;
const seconds = (us: number) => us / 1e6;

export class RequestFacts {
  /** True after the first output. */
  #isBegun = false;
  /** Preemptions that were reported. */
  #preemptions = 0;

  /** `blockSize`: tokens per KV block. 0: prompts are not cached. */
  constructor(private readonly blockSize: number) {}

  /** Reports whether the next output has no facts. */
  areNone({ timeline }: Submission): boolean {
    return this.#isBegun && (!timeline || (this.#preemptions + 1) * ENTRY > timeline.preempted.length);
  }

  /** Returns the facts for the next output. `events` null: nothing happened since the last one. */
  next(submission: Submission): {
    readonly isFirst: boolean;
    readonly events: readonly EngineCoreEvent[] | null;
    readonly prefill_stats: PrefillStats | null;
  } {
    const isFirst = !this.#isBegun;
    this.#isBegun = true;
    const { timeline } = submission;
    if (!timeline) return { isFirst, events: null, prefill_stats: null };
    const events = isFirst ? beginning(timeline) : [];
    const { preempted } = timeline;
    for (; (this.#preemptions + 1) * ENTRY <= preempted.length; this.#preemptions++) {
      const [atUs, resumedUs] = preempted.slice(this.#preemptions * ENTRY) as [number, number];
      if (Number.isNaN(resumedUs)) break;
      events.push({ type: EventType.Preempted, timestamp: seconds(atUs) });
      events.push({ type: EventType.Scheduled, timestamp: seconds(resumedUs) });
    }
    return {
      isFirst,
      events: events.length > 0 ? events : null,
      prefill_stats: isFirst ? this.#prefill(timeline) : null,
    };
  }

  #prefill({ promptTokens, cachedTokens }: TimelineFacts): PrefillStats {
    const cached = Math.max(0, cachedTokens);
    // Only whole blocks are stored.
    const stored = this.blockSize === 0 ? 0 : promptTokens - (promptTokens % this.blockSize);
    return {
      num_prompt_tokens: promptTokens,
      num_computed_tokens: promptTokens - cached,
      num_cached_tokens: cached,
      num_local_cached_tokens: cached,
      num_external_cached_tokens: 0,
      num_cache_creation_tokens: Math.max(0, stored - cached),
    };
  }
}

function beginning({ queuedUs, scheduledUs }: TimelineFacts): EngineCoreEvent[] {
  return [
    { type: EventType.Queued, timestamp: seconds(queuedUs) },
    { type: EventType.Scheduled, timestamp: seconds(scheduledUs) },
  ].filter(({ timestamp }) => !Number.isNaN(timestamp));
}
