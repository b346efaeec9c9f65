/** An engine's outbox that tests fill by hand. The receivers and lanes are real; there is no core. */
import { OUT_WORDS, SLOTS, Word } from "../assembly/layout.ts";
import type { CoreRequest } from "../src/engine/core-request.ts";
import type { Lanes } from "../src/engine/interface/lanes.ts";
import { Finish, type Receiver } from "../src/engine/interface/types.ts";
import { LiveRequest } from "../src/engine/live.ts";
import { Receivers, type ReceiversOptions } from "../src/engine/receivers.ts";

const ROWS_MOST = 4096;

export class Outbox {
  readonly #receivers: Receivers;
  readonly #lanes: Lanes | null;
  readonly #out = new Int32Array(ROWS_MOST * OUT_WORDS);
  readonly #tokens = new Int32Array(4 * ROWS_MOST);
  readonly #words = new Int32Array(Word.Count);
  readonly #free: number[] = [];
  #slots = 0;
  #at = 0;

  constructor(lanes: Lanes | null) {
    this.#lanes = lanes;
    const views = { out: this.#out, tokens: this.#tokens, words: this.#words };
    this.#receivers = new Receivers({
      batch: { core: { views } },
      adapters: { ended() {} },
      ...{ clock: null, recorder: null, metered: false, lanes },
    } as unknown as ReceiversOptions);
  }

  /** Adds a running generation. The slot of an ended generation is reused. */
  add(receiver: Receiver): LiveRequest {
    const engine = { lanes: this.#lanes, end: (live: LiveRequest) => this.#end(live), unblock() {} };
    const live = new LiveRequest(engine, { adapter: 0 } as CoreRequest, receiver, undefined, undefined);
    live.handle = this.#free.pop() ?? this.#slots++;
    this.#receivers.add(live);
    return live;
  }

  /** Adds a row to the next step. `last`: the generation ends with this row. */
  row(live: LiveRequest, ids: readonly number[], last = false): void {
    this.#tokens.set(ids, this.#at);
    const flags = last ? Finish.Length + 1 : 0;
    this.#out.set([live.handle % SLOTS, this.#at, ids.length, flags], this.#words[Word.OutRows]!++ * OUT_WORDS);
    this.#at += ids.length;
  }

  /** Delivers the rows to their receivers. */
  deliver(): void {
    this.#receivers.deliver(0);
    this.#words[Word.OutRows] = 0;
    this.#at = 0;
  }

  #end(live: LiveRequest): void {
    if (live.ended) return;
    live.ended = true;
    this.#receivers.forget(live);
    this.#free.push(live.handle);
  }
}
