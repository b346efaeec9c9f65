/** Counts how often each law was judged and broken, and keeps the first violations. */
import type { LawResult, Note, Severity, Violation } from "../check/index.ts";
import { KV_LAW_IDS, KV_LAWS, type KvLaw, type KvLawId } from "./laws.ts";

/** Violations and notes of a law that are kept. */
const KEPT = 5;
/** Characters of a violation that are kept, because tags and topics may be long. */
const CHARACTERS_MOST = 400;

interface LawCounts {
  looks: number;
  violationCount: number;
  readonly violations: Violation[];
  readonly notes: Note[];
  reason: string;
}

export class Tally {
  readonly #counts = new Map<KvLawId, LawCounts>();
  /** Time of the message that is judged, in seconds since 1970. */
  atS = 0;
  /** Name of the publisher in violations. */
  source: string;

  constructor(source: string) {
    this.source = source;
  }

  /** Counts a judgement. Keeps the sentence as a violation if the law does not hold. */
  judge(id: KvLawId, holds: boolean, sentence: () => string): void {
    if (holds) this.#of(id).looks++;
    else this.broken(id, sentence());
  }

  broken(id: KvLawId, sentence: string, severity: Severity = KV_LAWS[id].severity): void {
    const counts = this.#of(id);
    counts.looks++;
    counts.violationCount++;
    if (counts.violations.length < KEPT) counts.violations.push(this.#violation(id, sentence, severity));
  }

  /** Keeps a remark about a law that is not a violation. `known`: why it is legal. */
  note(id: KvLawId, sentence: string, known: string): void {
    const { notes } = this.#of(id);
    if (notes.length < KEPT) notes.push({ ...this.#violation(id, sentence, "I"), known });
  }

  /** Says why a law could not be judged, at least once. */
  unjudged(id: KvLawId, reason: string): void {
    this.#of(id).reason ||= reason;
  }

  /** Returns the results of the laws, in their order. `only`: the laws to judge. */
  results(only: readonly string[] | undefined): LawResult[] {
    const ids = KV_LAW_IDS.filter((id) => only?.includes(id) ?? true);
    return ids.map((id): LawResult => {
      const { looks, violationCount, violations, notes, reason } = this.#of(id);
      const { sentence, severity, means }: KvLaw = KV_LAWS[id];
      const isJudged = looks > 0 ? "held" : notes.length > 0 ? "note" : "not checkable";
      return {
        ...{ id, of: "any", sentence, severity, looks, violationCount, violations: [...violations], notes: [...notes] },
        verdict: violationCount > 0 ? "violated" : isJudged,
        reason: looks > 0 && reason !== "" ? `in part: ${reason}` : reason || "nothing to judge",
        means,
        looksLike: "",
      };
    });
  }

  #of(id: KvLawId): LawCounts {
    let counts = this.#counts.get(id);
    if (counts === undefined) {
      counts = { looks: 0, violationCount: 0, violations: [], notes: [], reason: "" };
      this.#counts.set(id, counts);
    }
    return counts;
  }

  #violation(id: KvLawId, sentence: string, severity: Severity): Violation {
    const text = sentence.length > CHARACTERS_MOST ? `${sentence.slice(0, CHARACTERS_MOST)}…` : sentence;
    const term = { text, value: 1 };
    return {
      ...{ law: id, severity, left: term, relation: "", right: term },
      ...{ source: this.source, atS: this.atS, beforeS: null },
    };
  }
}
