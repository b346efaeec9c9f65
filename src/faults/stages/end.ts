/**
 * Last stage: collects the operations, ends the answer early if a fault orders it, and decides what happens to the connection.
 */
import type { FaultRun } from "../plan/fault-run.ts";
import type { AnswerEnding, ConnectionEffect, EventCounts, Part, PartReceiver, WireOperation } from "../plan/types.ts";
import { STREAM_CODES } from "../rows/row.ts";
import { PositionFinder } from "./places.ts";

const CUTTING = ["E6", "E7", "E8", "T2", "E10"];
const SPARES = ["accept", "goaway"];

const codeOf = (run: FaultRun): number => STREAM_CODES[run.word("code")]!;

/** Collects the operations of an answer. */
export class EndStage implements PartReceiver {
  readonly #counts: EventCounts;
  readonly #cutting: readonly FaultRun[];
  readonly #named: ReadonlyMap<string, FaultRun>;
  readonly #places = new PositionFinder();
  readonly #closes: () => boolean;
  readonly #http2: boolean;
  /** Planned fault that sends GOAWAY while the answer continues. Null: the plan has no such fault. */
  readonly #away: FaultRun | null;
  #operations: WireOperation[] = [];
  #segment: Uint8Array[] = [];
  #event = -1;
  #pace: Part["pace"];
  over = false;

  /** `closes`: returns true if the bytes written so far make the connection unusable for another request. */
  constructor(runs: readonly FaultRun[], counts: EventCounts, http2: boolean, closes: () => boolean) {
    this.#counts = counts;
    this.#http2 = http2;
    this.#closes = closes;
    const spares = ({ fault }: FaultRun) => SPARES.includes(`${fault.values.how}`);
    this.#cutting = runs.filter((run) => CUTTING.includes(run.id) && !spares(run));
    this.#away = runs.find((run) => run.id === "E10" && spares(run)) ?? null;
    this.#named = new Map(runs.map((run) => [run.id, run]));
  }

  /** Returns the operations that were collected since the previous call. */
  takeOperations(): WireOperation[] {
    const operations = this.#operations;
    this.#operations = [];
    return operations;
  }

  head(): void {}

  part(part: Part): void {
    const first = this.over || this.#cutting.length === 0 ? undefined : this.#first(part);
    const away = this.over || this.#away === null ? null : this.#places.at(this.#away, part);
    this.#places.passed(part);
    if (this.over || first !== undefined) this.#counts.cut += part.completeEvents;
    if (this.over) return;
    this.#event = part.event;
    // A segment has only one pace, so bytes with another pace start a new segment.
    if (part.pace !== this.#pace) this.#flush();
    this.#pace = part.pace;
    this.#push(first === undefined ? part.bytes : part.bytes.subarray(0, first.at!), away);
    if (first !== undefined) {
      this.#cut(first.run);
      return;
    }
    this.#counts.whole += part.completeEvents;
    if (part.flush) this.#flush();
  }

  /** Returns the index of the first event, from `event` on, in which a fault may end the answer. */
  next(event: number): number {
    if (this.over || this.#segment.length > 0) return event;
    const runs = this.#away === null ? this.#cutting : [...this.#cutting, this.#away];
    return Math.min(...runs.map((run) => this.#places.next(run, event)));
  }

  /** Counts an event of `bytes` bytes in which no fault ends the answer. */
  skipped(event: number, bytes: number): void {
    this.#event = event;
    this.#places.skipped(event, bytes);
    this.#counts.whole++;
  }

  /**
   * Returns the fault that ends the answer first in this part, and the byte at which it does. Undefined if no fault ends the
   * answer here.
   */
  #first(part: Part): { readonly run: FaultRun; readonly at: number | null } | undefined {
    const places = this.#cutting.map((run) => ({ run, at: this.#places.at(run, part) }));
    return places.filter(({ at }) => at !== null).toSorted((a, b) => a.at! - b.at!)[0];
  }

  #push(bytes: Uint8Array, away: number | null): void {
    if (away === null || away > bytes.length) {
      this.#segment.push(bytes);
      return;
    }
    this.#segment.push(bytes.subarray(0, away));
    this.#flush();
    this.#goAway(this.#away!, false);
    this.#segment.push(bytes.subarray(away));
  }

  #goAway(run: FaultRun, unserved: boolean): void {
    run.fired++;
    this.#operations.push({ kind: "goaway", code: codeOf(run), unserved });
  }

  wait(us: number): void {
    if (this.over || us === 0) return;
    this.#flush();
    this.#operations.push({ kind: "wait", us });
  }

  finish(): void {
    if (this.over) return;
    const stays = this.#named.get("E3");
    if (stays !== undefined) {
      stays.fired++;
      this.wait(stays.number("for"));
    }
    this.#end((stays !== undefined && !this.#http2) || this.#closes() ? "fin" : "done");
  }

  #cut(run: FaultRun): void {
    this.#flush();
    if (run.id === "E10" && run.word() === "unserved") this.#goAway(run, true);
    else run.fired++;
    if (run.id === "E7") this.wait(run.number("after"));
    else if (run.id === "T2") this.wait(run.number("for"));
    const resets = run.id === "E7" || run.id === "T2" || (run.id === "E8" && run.word() === "rst");
    if (run.id === "E10" && run.word() === "reset") this.#end("reset", codeOf(run));
    else this.#end(resets ? "rst" : "fin");
  }

  #end(how: AnswerEnding, code?: number): void {
    this.#flush();
    this.over = true;
    const after = this.#after(how);
    this.#operations.push({ kind: "end", how, ...(code === undefined ? {} : { code }), after });
  }

  #after(how: AnswerEnding): ConnectionEffect {
    const [e8, e9] = [this.#named.get("E8"), this.#named.get("E9")];
    const accepts = e8?.word() === "accept";
    if (accepts) e8!.fired++;
    const next = e9 !== undefined && how === "done" ? (e9.word() as "fin" | "rst") : null;
    if (next !== null) e9!.fired++;
    return { next, refused: accepts ? e8!.number("connections") : 0 };
  }

  #flush(): void {
    const bytes = this.#segment.length === 1 ? this.#segment[0]! : Buffer.concat(this.#segment);
    this.#segment = [];
    if (bytes.length > 0) this.#operations.push({ kind: "bytes", bytes, event: this.#event, pace: this.#pace ?? null });
  }
}
