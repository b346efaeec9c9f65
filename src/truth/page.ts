/**
 * A page of rows on the way to the writer. Rows are doubles: kind, length in words, fields. A page is transferred to
 * another thread without a copy.
 */
import { type RequestTimeline, type StepFacts, WRITTEN_PARTS } from "../engine/observer.ts";

/** Number of words in a page. An empty page has room for the longest row with all its runs and preemptions. */
export const PAGE_WORDS = 32_768;
/** Largest number of bytes of an id that are kept. */
export const ID_BYTES = 512;

export enum RowKind {
  Step = 1,
  Request = 2,
  /** A whole line of JSON. */
  Fault = 3,
}

/** Words of a row before its lists, in the order in which the functions below write them. */
const STEP_HEAD_WORDS = 12;
/** Largest number of words of a step's row. */
export const STEP_WORDS = STEP_HEAD_WORDS + WRITTEN_PARTS - 1;
export const REQUEST_WORDS = 26;
const TEXT_HEAD_WORDS = 3;

const encoder = new TextEncoder();

export class Page {
  readonly #bytes: Uint8Array;
  used = 0;
  /** Numbers of runs, steps and requests in the page, so that the rows of a lost page can be counted. */
  runs = 0;
  steps = 0;
  requests = 0;

  constructor(readonly words = new Float64Array(PAGE_WORDS)) {
    this.#bytes = new Uint8Array(words.buffer);
  }

  clear(): void {
    this.used = 0;
    this.runs = 0;
    this.steps = 0;
    this.requests = 0;
  }

  fits(words: number): boolean {
    return this.used + words <= PAGE_WORDS;
  }

  step(engine: number, facts: StepFacts): void {
    const { words } = this;
    const { partsUs } = facts;
    let at = this.used;
    words[at++] = RowKind.Step;
    words[at++] = STEP_HEAD_WORDS + partsUs.length;
    words[at++] = engine;
    words[at++] = facts.step;
    words[at++] = facts.plannedUs;
    words[at++] = facts.dueUs;
    words[at++] = facts.startUs;
    words[at++] = facts.endUs;
    words[at++] = facts.tokens;
    words[at++] = facts.preemptions;
    words[at++] = facts.rebasedUs;
    words[at++] = facts.cause;
    for (let i = 0; i < partsUs.length; i++) words[at++] = partsUs[i]!;
    this.used = at;
    this.steps++;
  }

  /**
   * Adds a request's row. `withLists`: includes runs and preemption times; without, they count as dropped. Ids are
   * stored as UTF-8, 8 bytes per word.
   */
  request(engine: number, timeline: RequestTimeline, withLists: boolean): void {
    const { words } = this;
    const from = this.used;
    const id = this.#id(timeline.id, 8 * (from + REQUEST_WORDS));
    const preempted = withLists ? timeline.preempted : [];
    const runs = withLists ? timeline.runs : [];
    let at = from;
    words[at++] = RowKind.Request;
    at++;
    words[at++] = engine;
    words[at++] = timeline.order;
    words[at++] = timeline.arrivalUs;
    words[at++] = timeline.queuedUs;
    words[at++] = timeline.scheduledUs;
    words[at++] = timeline.prefillEndUs;
    words[at++] = timeline.endUs;
    words[at++] = timeline.reason ?? -1;
    words[at++] = timeline.promptTokens;
    words[at++] = timeline.cachedTokens;
    words[at++] = timeline.recomputedTokens;
    words[at++] = timeline.outputTokens;
    words[at++] = timeline.bytes;
    words[at++] = timeline.preemptions;
    words[at++] = timeline.runsDropped + (withLists ? 0 : timeline.runs.length / 3);
    words[at++] = id;
    words[at++] = preempted.length;
    words[at++] = runs.length;
    words[at++] = Number.isNaN(timeline.scheduledUs) ? 0 : timeline.promptTokens - timeline.cachedTokens;
    words[at++] = timeline.firstWrittenUs;
    words[at++] = timeline.lastWrittenUs;
    words[at++] = timeline.lateSteps;
    words[at++] = timeline.lateUs;
    words[at++] = timeline.rebasedUs;
    at += Math.ceil(id / 8);
    for (let i = 0; i < preempted.length; i++) words[at++] = preempted[i]!;
    for (let i = 0; i < runs.length; i++) words[at++] = runs[i]!;
    words[from + 1] = at - from;
    this.used = at;
    this.runs += runs.length / 3;
    this.requests++;
  }

  /** Adds a line for the log, in ASCII. */
  fault(line: string): void {
    const { words } = this;
    const from = this.used;
    words[from] = RowKind.Fault;
    words[from + 1] = textWords(line.length);
    words[from + 2] = line.length;
    encoder.encodeInto(line, this.#bytes.subarray(8 * (from + TEXT_HEAD_WORDS)));
    this.used = from + words[from + 1]!;
  }

  /**
   * Writes the id after the row's numbers and returns its number of bytes. Most ids are ASCII, and creating a view for
   * the encoder would take longer than the rest of the row.
   */
  #id(id: string, at: number): number {
    const bytes = this.#bytes;
    // Bytes beyond the id in its last word are not defined.
    for (let i = 0; i < id.length && i < ID_BYTES; i++) {
      const code = id.charCodeAt(i);
      if (code >= 0x80) return encoder.encodeInto(id, bytes.subarray(at, at + ID_BYTES)).written;
      bytes[at + i] = code;
    }
    return Math.min(id.length, ID_BYTES);
  }
}

/** Returns the words of a text's row. */
export const textWords = (bytes: number): number => TEXT_HEAD_WORDS + Math.ceil(bytes / 8);

/** Returns the largest number of words of a request's row. */
export function requestWords(timeline: RequestTimeline, withLists: boolean): number {
  const lists = withLists ? timeline.preempted.length + timeline.runs.length : 0;
  return REQUEST_WORDS + ID_BYTES / 8 + lists;
}
