/**
 * Turns an answer and a plan into operations for the connection: bytes to send, pauses, and an end. The six stages always run
 * in the same order, so the order of the faults in a plan does not matter. This code uses no socket and no clock.
 */

import { planText } from "./parse.ts";
import { FaultDraws } from "./plan/draws.ts";
import type { StreamEvent } from "./plan/event.ts";
import { FaultRun } from "./plan/fault-run.ts";
import type { AnswerHead, EventCounts, Plan, WireOperation } from "./plan/types.ts";
import { actsOn } from "./rows/row.ts";
import { CodingStage } from "./stages/coding.ts";
import { EndStage } from "./stages/end.ts";
import { EventStage } from "./stages/events.ts";
import { withField } from "./stages/heads.ts";
import { HttpStage } from "./stages/http.ts";
import { SegmentStage } from "./stages/segments.ts";
import { swappedHead, wholeAsStream, wholeOf } from "./stages/swap.ts";
import { TextStage } from "./stages/text.ts";

/** Maximum number of bytes that a plan may add to an answer. */
export const ADDED_MOST = 12 * 2 ** 20;
const FAULT_HEADER = "x-understudy-fault";

/** Counts of the events and faults of one answer. */
export interface FaultAccount extends EventCounts {
  /** Faults of the plan, with the number of times that each fault acted. */
  readonly fired: readonly { readonly id: string; readonly fault: string; readonly times: number }[];
}

export class FaultPipeline {
  /** Text of a plan that reproduces the faults of this answer. */
  readonly line: string;
  readonly #counts: EventCounts = { came: 0, dropped: 0, whole: 0, cut: 0 };
  readonly #runs: readonly FaultRun[];
  readonly #events: EventStage;
  readonly #text: TextStage;
  readonly #coding: CodingStage;
  readonly #http: HttpStage;
  readonly #segments: SegmentStage;
  readonly #end: EndStage;
  readonly #swap: FaultRun | null;
  #swapped: StreamEvent[] = [];
  #added = 0;
  /** Index of the first event on which a fault may act. No fault acts on an earlier event. */
  #untouchedUntil = 0;

  /**
   * `key`: the request's key. Random draws depend only on the key and on the plan's seed. `http2`: if true, the operations
   * contain no HTTP/1.1 chunk lines, and an operation whose event is -1 holds the head or a part of the head.
   */
  constructor(plan: Plan, key: string, http2 = false) {
    const usedKey = plan.key ?? key;
    const draws = new FaultDraws(plan.seed, usedKey);
    this.line = planText(plan, usedKey);
    this.#runs = plan.faults.map((fault, place) => new FaultRun(fault, place, draws));
    const room = (bytes: number) => {
      if (this.#added + bytes > ADDED_MOST) return false;
      this.#added += bytes;
      return true;
    };
    const possible = this.#runs.filter(({ fault: { row } }) => actsOn(row, http2 ? "2" : "1.1"));
    let closes = () => false;
    this.#end = new EndStage(possible, this.#counts, http2, () => closes());
    this.#segments = new SegmentStage(possible, this.#end);
    this.#http = new HttpStage(possible, this.#segments, this.#counts, room, http2);
    closes = () => this.#http.closes;
    this.#coding = new CodingStage(possible, this.#http);
    this.#text = new TextStage(possible, this.#coding, room);
    this.#events = new EventStage(possible, this.#counts, room);
    const swap = possible.find(({ id }) => id === "H5");
    this.#swap = swap?.word() === "swap" ? swap : null;
  }

  /** Sends the head of a streamed answer. */
  begin(head: AnswerHead): WireOperation[] {
    const named = withField(head, FAULT_HEADER, this.line);
    if (this.#swap !== null) this.#swap.fired++;
    this.#coding.head(this.#swap === null ? named : swappedHead(named));
    return this.#end.takeOperations();
  }

  /**
   * Returns true if no fault changes the next event, a plain piece of text of `bytes` bytes. The caller then sends the event as
   * one segment (over HTTP/1.1 as one chunk), and the event counts as written. If false, the caller must pass the event to
   * `write`.
   */
  passes(bytes: number): boolean {
    const event = this.#counts.came;
    if (event >= this.#untouchedUntil) {
      this.#untouchedUntil = this.#next(event);
      if (event >= this.#untouchedUntil) return false;
    }
    this.#events.skipped();
    this.#http.skipped(event);
    this.#segments.skipped(event, bytes);
    this.#end.skipped(event, bytes);
    return true;
  }

  /** Returns the index of the first event, from `event` on, on which a fault may act. */
  #next(event: number): number {
    if (this.#swap !== null) return event;
    const stages = [this.#events, this.#text, this.#coding, this.#http, this.#segments, this.#end];
    return Math.min(...stages.map((stage) => stage.next(event)));
  }

  /** Sends the text of one or several events through the stages. */
  write(text: string): WireOperation[] {
    this.#untouchedUntil = 0;
    for (const event of this.#events.take(text)) {
      if (this.#swap === null) this.#text.take(event);
      else this.#swapped.push(event);
    }
    return this.#end.takeOperations();
  }

  /** Ends the stream after its last event. */
  end(): WireOperation[] {
    for (const event of this.#events.finish()) {
      if (this.#swap === null) this.#text.take(event);
      else this.#swapped.push(event);
    }
    if (this.#swap !== null)
      this.#body(wholeOf(this.#swapped), this.#swapped.filter(({ isOriginal }) => isOriginal).length);
    this.#coding.finish();
    return this.#end.takeOperations();
  }

  /** Sends a non-streamed answer. Its body counts as one event. */
  whole(head: AnswerHead, body: Uint8Array): WireOperation[] {
    const named = withField(head, FAULT_HEADER, this.line);
    this.#counts.came++;
    if (this.#swap !== null) this.#swap.fired++;
    this.#coding.head(this.#swap === null ? named : swappedHead(named));
    this.#body(this.#swap === null ? body : wholeAsStream(body), 1);
    this.#coding.finish();
    return this.#end.takeOperations();
  }

  /** Returns the counts of events and of faults so far. */
  account(): FaultAccount {
    const fired = this.#runs.map(({ id, fault, fired }) => ({ id, fault: fault.text, times: fired }));
    return { ...this.#counts, fired };
  }

  /**
   * Reason why a fault ended the answer early: "error" like an error of the engine, "gone" as if the client had disconnected.
   * No further event is sent then. Null: no fault ended the answer early.
   */
  get stopped(): "error" | "gone" | null {
    return this.#events.stopped;
  }

  /** True if the answer is finished, so that no further operation follows. */
  get over(): boolean {
    return this.#end.over;
  }

  #body(bytes: Uint8Array, completeEvents: number): void {
    this.#coding.part({ bytes, event: 0, from: 0, completeEvents, flush: true, done: true });
  }
}
