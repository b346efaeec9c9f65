/**
 * Disturbs a gRPC call. The faults that only gRPC has (rows/grpc.ts) act first. Then the messages pass the last two stages of
 * `pipeline.ts`, which treat each message as an event. Like `pipeline.ts`, this code uses no socket and no clock.
 */

import { planText } from "./parse.ts";
import type { FaultAccount } from "./pipeline.ts";
import { FaultDraws } from "./plan/draws.ts";
import { FaultRun } from "./plan/fault-run.ts";
import type { EventCounts, Plan, WireOperation } from "./plan/types.ts";
import { CALL_CODES } from "./rows/grpc.ts";
import { actsOn } from "./rows/row.ts";
import { EndStage } from "./stages/end.ts";
import { SegmentStage } from "./stages/segments.ts";

/** Length of the prefix of a gRPC message, in bytes: compression flag and message length. */
const PREFIX_BYTES = 5;
/** Difference between the true length of a message and the wrong length that a fault writes, in bytes. */
const WRONG_BY = 16;

export class MessagePipeline {
  /** Text of a plan that reproduces the faults of this call. */
  readonly line: string;
  readonly #counts: EventCounts = { came: 0, dropped: 0, whole: 0, cut: 0 };
  readonly #runs: readonly FaultRun[];
  readonly #callFaults: readonly FaultRun[];
  readonly #segments: SegmentStage;
  readonly #end: EndStage;
  /** gRPC status code that replaces the call's own code. Null if no fault replaces the code. */
  status: number | null = null;
  /** True if no more of the answer may be sent. */
  stopped = false;
  /**
   * Change that a fault makes to the trailers. `lost`: no trailers. `bare`: no status. `odd`: a status that is not a number. "":
   * no change. Set by `end`.
   */
  trailers = "";
  #begun = false;

  constructor(plan: Plan, key: string) {
    const usedKey = plan.key ?? key;
    const draws = new FaultDraws(plan.seed, usedKey);
    this.line = planText(plan, usedKey);
    this.#runs = plan.faults.map((fault, place) => new FaultRun(fault, place, draws));
    const possible = this.#runs.filter(({ fault: { row } }) => actsOn(row, "grpc"));
    this.#callFaults = possible.filter(({ fault: { row } }) => row.stage === "grpc");
    this.#end = new EndStage(possible, this.#counts, true, () => false);
    this.#segments = new SegmentStage(possible, this.#end);
  }

  /** Starts the answer. `block`: the encoded HTTP/2 header block. */
  begin(block: Uint8Array): WireOperation[] {
    const run = this.#callFaults.find(({ id, fault }) => id === "G1" && fault.position.kind === "head");
    if (run !== undefined) this.#stop(run);
    else {
      this.#begun = true;
      this.#segments.part({ bytes: block, event: -1, from: 0, completeEvents: 0, flush: true, done: false });
    }
    return this.#end.takeOperations();
  }

  /** Sends a message. `bytes`: the message with its prefix; a fault may change them in place. */
  message(bytes: Uint8Array): WireOperation[] {
    const event = this.#counts.came++;
    if (this.stopped) {
      this.#counts.dropped++;
      return [];
    }
    for (const run of this.#callFaults) {
      if (run.id === "G2" || !run.due(event, false)) continue;
      if (run.id === "G1") {
        this.#counts.dropped++;
        this.#stop(run);
        return this.#end.takeOperations();
      }
      run.fired++;
      this.stopped = true;
      misstate(bytes, run.word());
    }
    this.#segments.part({ bytes, event, from: 0, completeEvents: 1, flush: true, done: false });
    return this.#end.takeOperations();
  }

  /** Ends the answer. Call it after the last message, or as soon as `stopped` is true. */
  end(): WireOperation[] {
    this.#segments.finish();
    const operations = this.#end.takeOperations();
    const last = operations.at(-1);
    if (this.#begun && last?.kind === "end" && last.how === "done") this.#spoilTrailers();
    return operations;
  }

  /** Returns the counts of events and of faults so far. */
  account(): FaultAccount {
    const fired = this.#runs.map(({ id, fault, fired: times }) => ({ id, fault: fault.text, times }));
    return { ...this.#counts, fired };
  }

  #spoilTrailers(): void {
    const run = this.#callFaults.find(({ id }) => id === "G2");
    if (run === undefined) return;
    run.fired++;
    this.trailers = run.word();
  }

  #stop(run: FaultRun): void {
    run.fired++;
    this.status = CALL_CODES[run.word()]!;
    this.stopped = true;
  }
}

function misstate(bytes: Uint8Array, how: string): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, PREFIX_BYTES);
  const length = bytes.length - PREFIX_BYTES;
  if (how === "packed") view.setUint8(0, 1);
  else view.setUint32(1, how === "long" ? length + WRONG_BY : Math.max(0, length - WRONG_BY));
}
