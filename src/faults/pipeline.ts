/**
 * What is done in place of an answer? `(events of the answer, plan, draws) → operations`: bytes, waits, an end. No socket and
 * no clock; six stages in their order, so that any set of faults has one meaning.
 */

import { planText } from "./parse.ts";
import { FaultDraws } from "./plan/draws.ts";
import type { StreamEvent } from "./plan/event.ts";
import { Firing } from "./plan/firing.ts";
import type { AnswerHead, Fates, Plan, WireOperation } from "./plan/types.ts";
import { actsOn } from "./rows/row.ts";
import { CodingStage } from "./stages/coding.ts";
import { EndStage } from "./stages/end.ts";
import { EventStage } from "./stages/events.ts";
import { withField } from "./stages/heads.ts";
import { HttpStage } from "./stages/http.ts";
import { SegmentStage } from "./stages/segments.ts";
import { swappedHead, wholeAsStream, wholeOf } from "./stages/swap.ts";
import { TextStage } from "./stages/text.ts";

/** Bytes that a plan may add to an answer. */
export const ADDED_MOST = 12 * 2 ** 20;
export const FAULT_HEADER = "x-understudy-fault";

/** What came of one answer. */
export interface FaultAccount extends Fates {
  /** Faults of the plan, each with how often it acted. */
  readonly fired: readonly { readonly id: string; readonly fault: string; readonly times: number }[];
}

export class FaultPipeline {
  /** The line that orders the same again. */
  readonly line: string;
  readonly #fates: Fates = { came: 0, dropped: 0, whole: 0, cut: 0 };
  readonly #firings: readonly Firing[];
  readonly #events: EventStage;
  readonly #text: TextStage;
  readonly #coding: CodingStage;
  readonly #http: HttpStage;
  readonly #segments: SegmentStage;
  readonly #end: EndStage;
  readonly #swap: Firing | null;
  #swapped: StreamEvent[] = [];
  #added = 0;
  /** No fault touches an event before this one. */
  #untouchedUntil = 0;

  /**
   * `key`: of the request; draws follow from it, from the plan's seed, and from nothing else. `http2`: an operation with
   * bytes of event -1 has a head, or a part of one, and no chunks are around the others.
   */
  constructor(plan: Plan, key: string, http2 = false) {
    const own = plan.key ?? key;
    const draws = new FaultDraws(plan.seed, own);
    this.line = planText(plan, own);
    this.#firings = plan.faults.map((fault, place) => new Firing(fault, place, draws));
    const room = (bytes: number) => {
      if (this.#added + bytes > ADDED_MOST) return false;
      this.#added += bytes;
      return true;
    };
    const possible = this.#firings.filter(({ fault: { row } }) => actsOn(row, http2 ? "2" : "1.1"));
    let closes = () => false;
    this.#end = new EndStage(possible, this.#fates, http2, () => closes());
    this.#segments = new SegmentStage(possible, this.#end);
    this.#http = new HttpStage(possible, this.#segments, this.#fates, room, http2);
    closes = () => this.#http.closes;
    this.#coding = new CodingStage(possible, this.#http);
    this.#text = new TextStage(possible, this.#coding, room);
    this.#events = new EventStage(possible, this.#fates, room);
    const swap = possible.find(({ id }) => id === "H5");
    this.#swap = swap?.word() === "swap" ? swap : null;
  }

  /** The head of a stream. */
  begin(head: AnswerHead): WireOperation[] {
    const named = withField(head, FAULT_HEADER, this.line);
    if (this.#swap !== null) this.#swap.fired++;
    this.#coding.head(this.#swap === null ? named : swappedHead(named));
    return this.#end.taken();
  }

  /**
   * Is the next event, a plain piece of text of so many bytes, one segment as it is, a chunk over HTTP/1? Then it is counted
   * as written; else it is to go through `write`.
   */
  passes(bytes: number): boolean {
    const event = this.#fates.came;
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

  /** The first event from this one on that a fault may touch. */
  #next(event: number): number {
    if (this.#swap !== null) return event;
    const stages = [this.#events, this.#text, this.#coding, this.#http, this.#segments, this.#end];
    return stages.reduce((first, stage) => Math.min(first, stage.next(event)), Number.POSITIVE_INFINITY);
  }

  /** Text of one or several events, as they would have left. */
  write(text: string): WireOperation[] {
    this.#untouchedUntil = 0;
    for (const event of this.#events.take(text)) {
      if (this.#swap === null) this.#text.take(event);
      else this.#swapped.push(event);
    }
    return this.#end.taken();
  }

  /** The stream is complete. */
  end(): WireOperation[] {
    for (const event of this.#events.finish()) {
      if (this.#swap === null) this.#text.take(event);
      else this.#swapped.push(event);
    }
    if (this.#swap !== null) this.#body(wholeOf(this.#swapped), this.#swapped.filter(({ own }) => own).length);
    this.#coding.finish();
    return this.#end.taken();
  }

  /** An answer in one piece, which is its one event. */
  whole(head: AnswerHead, body: Uint8Array): WireOperation[] {
    const named = withField(head, FAULT_HEADER, this.line);
    this.#fates.came++;
    if (this.#swap !== null) this.#swap.fired++;
    this.#coding.head(this.#swap === null ? named : swappedHead(named));
    this.#body(this.#swap === null ? body : wholeAsStream(body), 1);
    this.#coding.finish();
    return this.#end.taken();
  }

  /** How it went, so far. */
  account(): FaultAccount {
    const fired = this.#firings.map(({ id, fault, fired }) => ({ id, fault: fault.text, times: fired }));
    return { ...this.#fates, fired };
  }

  /** The answer said in its middle that its engine failed, or that nobody is there for it: no event follows. */
  get stopped(): "error" | "gone" | null {
    return this.#events.stopped;
  }

  /** Nothing more is done, whatever comes. */
  get over(): boolean {
    return this.#end.over;
  }

  #body(bytes: Uint8Array, owns: number): void {
    this.#coding.part({ bytes, event: 0, from: 0, owns, flush: true, done: true });
  }
}
