/**
 * What is done in place of a call's answer? Its messages go through the last two stages of `pipeline.ts`, an event each; what is
 * of calls alone (rows/grpc.ts) is done before. Pure, as that is.
 */

import { planText } from "./parse.ts";
import type { FaultAccount } from "./pipeline.ts";
import { FaultDraws } from "./plan/draws.ts";
import { Firing } from "./plan/firing.ts";
import type { Fates, Plan, WireOperation } from "./plan/types.ts";
import { CALL_CODES } from "./rows/grpc.ts";
import { actsOn } from "./rows/row.ts";
import { EndStage } from "./stages/end.ts";
import { SegmentStage } from "./stages/segments.ts";

/** Bytes before a message: whether it is packed, and its length. */
const PREFIX_BYTES = 5;
/** So many more, or fewer, bytes than there are. */
const WRONG_BY = 16;

export class MessagePipeline {
  /** The line that orders the same again. */
  readonly line: string;
  readonly #fates: Fates = { came: 0, dropped: 0, whole: 0, cut: 0 };
  readonly #firings: readonly Firing[];
  readonly #own: readonly Firing[];
  readonly #segments: SegmentStage;
  readonly #end: EndStage;
  /** A number of gRPC that takes the place of the call's own status; null: it does not. */
  status: number | null = null;
  /** Nothing of the answer follows. */
  stopped = false;
  /** How the trailers are: as ever, or `lost`, `bare`, `odd`; known with the end. */
  trailers = "";
  #begun = false;

  constructor(plan: Plan, key: string) {
    const own = plan.key ?? key;
    const draws = new FaultDraws(plan.seed, own);
    this.line = planText(plan, own);
    this.#firings = plan.faults.map((fault, place) => new Firing(fault, place, draws));
    const possible = this.#firings.filter(({ fault: { row } }) => actsOn(row, "grpc"));
    this.#own = possible.filter(({ fault: { row } }) => row.stage === "grpc");
    this.#end = new EndStage(possible, this.#fates, true, () => false);
    this.#segments = new SegmentStage(possible, this.#end);
  }

  /** `block`: the head, as it leaves. */
  begin(block: Uint8Array): WireOperation[] {
    const firing = this.#own.find(({ id, fault }) => id === "G1" && fault.position.kind === "head");
    if (firing !== undefined) this.#stop(firing);
    else {
      this.#begun = true;
      this.#segments.part({ bytes: block, event: -1, from: 0, owns: 0, flush: true, done: false });
    }
    return this.#end.taken();
  }

  /** A message with what stands before it; the bytes are changed. */
  message(bytes: Uint8Array): WireOperation[] {
    const event = this.#fates.came++;
    if (this.stopped) {
      this.#fates.dropped++;
      return [];
    }
    for (const firing of this.#own) {
      if (firing.id === "G2" || !firing.due(event, false)) continue;
      if (firing.id === "G1") {
        this.#fates.dropped++;
        this.#stop(firing);
        return this.#end.taken();
      }
      firing.fired++;
      this.stopped = true;
      misstate(bytes, firing.word());
    }
    this.#segments.part({ bytes, event, from: 0, owns: 1, flush: true, done: false });
    return this.#end.taken();
  }

  /** The answer is complete, or `stopped` says that it is. */
  end(): WireOperation[] {
    this.#segments.finish();
    const operations = this.#end.taken();
    const last = operations.at(-1);
    if (this.#begun && last?.kind === "end" && last.how === "done") this.#spoilTrailers();
    return operations;
  }

  /** How it went, so far. */
  account(): FaultAccount {
    const fired = this.#firings.map(({ id, fault, fired: times }) => ({ id, fault: fault.text, times }));
    return { ...this.#fates, fired };
  }

  #spoilTrailers(): void {
    const firing = this.#own.find(({ id }) => id === "G2");
    if (firing === undefined) return;
    firing.fired++;
    this.trailers = firing.word();
  }

  #stop(firing: Firing): void {
    firing.fired++;
    this.status = CALL_CODES[firing.word()]!;
    this.stopped = true;
  }
}

function misstate(bytes: Uint8Array, how: string): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, PREFIX_BYTES);
  const length = bytes.length - PREFIX_BYTES;
  if (how === "packed") view.setUint8(0, 1);
  else view.setUint32(1, how === "long" ? length + WRONG_BY : Math.max(0, length - WRONG_BY));
}
