/** Fifth stage: divides the bytes into network segments and sets the pauses between segments. */
import type { FaultRun } from "../plan/fault-run.ts";
import type { BytePace, Part, PartReceiver } from "../plan/types.ts";
import { PositionFinder } from "./places.ts";

const LF = 10;
const CR = 13;
/** Length in bytes of the longest line end, CRLF. */
const LINE_END_MOST = 2;
/** Number of writes per second while a fault sends an answer slowly. */
const TRICKLES = 50;
const PARETO = 1.5;
const JITTER_MOST_US = 10e6;

/** Cut in a part: the segment ends before this byte, and a pause follows. */
interface SegmentCut {
  readonly at: number;
  readonly waitUs: number;
}

const NO_CUTS: readonly SegmentCut[] = [];

/** Returns the cuts that a fault makes in a part. */
type CutFinder = (part: Part, run: FaultRun, places: PositionFinder) => readonly SegmentCut[];

const CUTS: Readonly<Record<string, CutFinder>> = {
  B1(part, run, places) {
    if (run.fault.position.offset !== null || run.fault.position.kind === "byte") return atPlace(part, run, places);
    if (part.from < 0) return NO_CUTS;
    const split = characters(part.bytes, run.number("byte"));
    return split.length > 0 && places.covers(run, part) ? split.map((at) => ({ at, waitUs: 0 })) : NO_CUTS;
  },
  B4(part, run, places) {
    if (run.fault.position.offset !== null || run.fault.position.kind === "byte") return atPlace(part, run, places);
    if (part.from !== 0 || part.event < 0 || part.bytes.length < 2 || !places.covers(run, part)) return NO_CUTS;
    return [{ at: run.offset(part.event, part.bytes.length), waitUs: 0 }];
  },
  B7(part, run, places) {
    const at = part.from < 0 ? -1 : lastBoundary(part.bytes);
    return at > 0 && places.covers(run, part) ? [{ at, waitUs: 0 }] : NO_CUTS;
  },
  S1(part, run) {
    if (run.word() !== "split" || part.from < 0 || part.event < 0) return NO_CUTS;
    const cuts: SegmentCut[] = [];
    for (let at = part.bytes.indexOf(LF, 1); at >= 0; at = part.bytes.indexOf(LF, at + 1))
      if (part.bytes[at - 1] === CR) cuts.push({ at, waitUs: 0 });
    return cuts;
  },
  T1: (part, run, places) => atPlace(part, run, places, run.number("for")),
  T5(part, run, places) {
    if (run.word() === "clock" || places.at(run, part) !== 0) return NO_CUTS;
    run.fired++;
    return [{ at: 0, waitUs: jitter(run, part.event) }];
  },
};

/** Paces of the faults that send bytes slowly, by id of the fault. */
const PACES: Readonly<Record<string, (run: FaultRun) => BytePace>> = {
  B6: (run) => ({ bytes: run.number("bytes"), gapUs: run.number("gap") }),
  T3(run) {
    const rate = run.number("rate");
    const bytes = Math.max(1, Math.ceil(rate / TRICKLES));
    return { bytes, gapUs: Math.round((bytes / rate) * 1e6) };
  },
};

export class SegmentStage implements PartReceiver {
  readonly #runs: readonly FaultRun[];
  readonly #paced: readonly FaultRun[];
  /** One pace object per fault, so that consecutive parts with the same pace are recognized by identity. */
  readonly #paces = new Map<FaultRun, BytePace>();
  readonly #joined: FaultRun | null;
  readonly #down: PartReceiver;
  readonly #places = new PositionFinder();
  #waiting: Part[] = [];
  #events = 0;

  constructor(runs: readonly FaultRun[], down: PartReceiver) {
    this.#runs = runs.filter(({ id }) => id in CUTS);
    this.#paced = runs.filter(({ id }) => id in PACES);
    this.#joined = runs.find(({ id }) => id === "B5" || id === "T4") ?? null;
    this.#down = down;
  }

  head(): void {}

  part(original: Part): void {
    if (this.#runs.length === 0 && this.#paced.length === 0) {
      this.#pass(original);
      return;
    }
    const part = this.#paced.length === 0 ? original : this.#withPace(original);
    let cuts = NO_CUTS;
    for (const run of this.#runs) {
      const more = CUTS[run.id]!(part, run, this.#places);
      if (more.length > 0) cuts = cuts.length === 0 ? more : [...cuts, ...more];
    }
    this.#places.passed(part);
    let from = 0;
    for (const { at, waitUs } of cuts.length < 2 ? cuts : cuts.toSorted((a, b) => a.at - b.at)) {
      if (at > from) this.#pass(slice(part, from, at));
      from = Math.max(from, at);
      if (waitUs > 0) this.wait(waitUs);
    }
    this.#pass(from === 0 ? part : slice(part, from, part.bytes.length));
  }

  /** Counts every slow fault that acts on the part. Gives the part the pace of the first of these faults. */
  #withPace(part: Part): Part {
    let pace: BytePace | undefined;
    for (const run of this.#paced)
      if (this.#places.covers(run, part)) pace ??= this.#paces.get(run) ?? this.#paceOf(run);
    return pace === undefined ? part : { ...part, pace };
  }

  #paceOf(run: FaultRun): BytePace {
    const pace = PACES[run.id]!(run);
    this.#paces.set(run, pace);
    return pace;
  }

  /** Returns the index of the first event, from `event` on, that a fault may divide or delay. */
  next(event: number): number {
    if (this.#joined !== null) return event;
    return Math.min(...[...this.#runs, ...this.#paced].map((run) => this.#places.next(run, event)));
  }

  /** Counts an event of `bytes` bytes that is sent as one segment without a pause. */
  skipped(event: number, bytes: number): void {
    this.#places.skipped(event, bytes);
  }

  wait(us: number): void {
    this.#down.wait(us);
  }

  finish(): void {
    this.#release();
    this.#down.finish();
  }

  #pass(part: Part): void {
    if (this.#joined === null || part.event < 0) {
      this.#down.part(part);
      return;
    }
    this.#waiting.push(part);
    if (part.flush && ++this.#events >= this.#joined.number("events")) this.#release();
  }

  #release(): void {
    const parts = this.#waiting;
    if (parts.length === 0) return;
    const joined = this.#joined!;
    this.#waiting = [];
    this.#events = 0;
    joined.fired++;
    if (joined.id === "T4") this.#down.wait(joined.number("pause"));
    const last = parts.length - 1;
    for (const [at, part] of parts.entries())
      this.#down.part(joined.id === "T4" ? part : { ...part, flush: at === last });
  }
}

function slice(part: Part, from: number, to: number): Part {
  const whole = to === part.bytes.length;
  return {
    ...part,
    bytes: part.bytes.subarray(from, to),
    from: part.from < 0 ? part.from : part.from + from,
    completeEvents: whole ? part.completeEvents : 0,
    flush: whole ? part.flush : true,
  };
}

function atPlace(part: Part, run: FaultRun, places: PositionFinder, waitUs = 0): readonly SegmentCut[] {
  const at = places.at(run, part);
  if (at === null) return NO_CUTS;
  run.fired++;
  return [{ at, waitUs }];
}

/** Returns the offsets that lie `behind` bytes after the first byte of a multi-byte character. */
function characters(bytes: Uint8Array, behind: number): number[] {
  const positions: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    const first = bytes[at]!;
    const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    if (length > 1 && at + length <= bytes.length) positions.push(at + Math.min(behind, length - 1));
  }
  return positions;
}

/** Returns the offset between the two line ends at the end of an event, or -1 if there are no two line ends. */
function lastBoundary(bytes: Uint8Array): number {
  const last = String.fromCharCode(...bytes.subarray(-2 * LINE_END_MOST));
  const end = /(\r\n|\r|\n)(\r\n|\r|\n)$/.exec(last);
  return end === null ? -1 : bytes.length - end[2]!.length;
}

/** Draws a pause in microseconds from the fault's distribution, whose median is a parameter of the fault. */
function jitter(run: FaultRun, event: number): number {
  const median = run.number("median");
  const fraction = (n: number) => (run.below(2 * event + n, 2 ** 24) + 1) / (2 ** 24 + 1);
  const normal = Math.sqrt(-2 * Math.log(fraction(0))) * Math.cos(2 * Math.PI * fraction(1));
  const times = run.word() === "pareto" ? (2 * fraction(0)) ** (-1 / PARETO) : Math.exp(normal);
  return Math.min(JITTER_MOST_US, Math.round(median * times));
}
