/** Last stage: where the answer ends before its time, and what becomes of the connection. */
import type { Firing } from "../firing.ts";
import type { Aftermath, AnswerEnding, Downstream, Fates, Part, WireOperation } from "../types.ts";
import { Places } from "./places.ts";

const CUTTING = ["E6", "E7", "E8", "T2"];

/** Gathers what is to be done. */
export class EndStage implements Downstream {
  readonly #fates: Fates;
  readonly #cutting: readonly Firing[];
  readonly #named: ReadonlyMap<string, Firing>;
  readonly #places = new Places();
  readonly #closes: () => boolean;
  #operations: WireOperation[] = [];
  #segment: Uint8Array[] = [];
  #event = -1;
  #pace: Part["pace"];
  over = false;

  /** `closes`: whether the connection cannot be used any more, by what was written. */
  constructor(firings: readonly Firing[], fates: Fates, closes: () => boolean) {
    this.#fates = fates;
    this.#closes = closes;
    this.#cutting = firings.filter((firing) => CUTTING.includes(firing.id) && firing.fault.values.how !== "accept");
    this.#named = new Map(firings.map((firing) => [firing.id, firing]));
  }

  /** What came together since it was asked last. */
  taken(): WireOperation[] {
    const operations = this.#operations;
    this.#operations = [];
    return operations;
  }

  head(): void {}

  part(part: Part): void {
    const places = this.over ? [] : this.#cutting.map((firing) => ({ firing, at: this.#places.at(firing, part) }));
    const [first] = places.filter(({ at }) => at !== null).toSorted((a, b) => a.at! - b.at!);
    this.#places.passed(part);
    if (this.over || first !== undefined) this.#fates.cut += part.owns;
    if (this.over) return;
    this.#event = part.event;
    // What trickles is a matter of its own.
    if (part.pace !== this.#pace) this.#flush();
    this.#pace = part.pace;
    if (first !== undefined) {
      this.#segment.push(part.bytes.subarray(0, first.at!));
      this.#cut(first.firing);
      return;
    }
    this.#fates.whole += part.owns;
    this.#segment.push(part.bytes);
    if (part.flush) this.#flush();
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
    this.#end(stays !== undefined || this.#closes() ? "fin" : "done");
  }

  #cut(firing: Firing): void {
    firing.fired++;
    this.#flush();
    if (firing.id === "E7") this.wait(firing.number("after"));
    else if (firing.id === "T2") this.wait(firing.number("for"));
    const resets = firing.id === "E7" || firing.id === "T2" || (firing.id === "E8" && firing.word() === "rst");
    this.#end(resets ? "rst" : "fin");
  }

  #end(how: AnswerEnding): void {
    this.#flush();
    this.over = true;
    this.#operations.push({ kind: "end", how, after: this.#after(how) });
  }

  #after(how: AnswerEnding): Aftermath {
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
