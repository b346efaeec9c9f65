/**
 * Records the bytes of an answer with their times, for reports. Keeps the first bytes of each operation, and a limited number
 * of operations.
 */
import type { Clock } from "../../base/clock.ts";
import type { DisturbedAnswer } from "../../wire/http/sink.ts";

export interface TimelineAnswer {
  readonly status: number;
  readonly end: DisturbedAnswer["end"];
  /**
   * Milliseconds after the request; "bytes", "wait" or the kind of end; number of bytes, or milliseconds of a wait; the text,
   * escaped.
   */
  readonly operations: readonly (readonly [ms: number, kind: string, amount: number, text: string])[];
  /** Number of operations that are not kept. */
  readonly more: number;
}

const OPERATIONS = 200;
const TEXT_BYTES = 400;

export class Timeline {
  readonly #beganUs: number;
  readonly #texts: string[] = [];
  bytes = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#beganUs = clock.now();
  }

  sent(bytes: Uint8Array): void {
    this.bytes += bytes.length;
    if (this.#texts.length < OPERATIONS) this.#texts.push(escaped(bytes.subarray(0, TEXT_BYTES)));
  }

  /** Returns the record after the answer has ended. */
  answer({ status }: { readonly status: number }, { end, operations, unkept }: DisturbedAnswer): TimelineAnswer {
    const texts = this.#texts[Symbol.iterator]();
    const first = operations.slice(0, OPERATIONS).map(([us, kind, , length]) => {
      const amount = kind === "wait" ? Math.round(length / 1000) : length;
      const text = kind === "bytes" ? (texts.next().value ?? "") : "";
      return [Math.round(us - this.#beganUs) / 1000, kind, amount, text] as const;
    });
    return { status, end, operations: first, more: operations.length + unkept - first.length };
  }
}

/** Prints ASCII as it is, and other bytes as escapes. */
function escaped(bytes: Uint8Array): string {
  const escapes: Readonly<Record<number, string>> = { 10: "\\n", 13: "\\r", 92: "\\\\" };
  return [...bytes]
    .map((byte) =>
      byte >= 32 && byte < 127 && byte !== 92
        ? String.fromCharCode(byte)
        : (escapes[byte] ?? `\\x${byte.toString(16).padStart(2, "0")}`),
    )
    .join("");
}
