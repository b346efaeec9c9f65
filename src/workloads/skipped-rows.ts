/** Counts, by reason, the rows of a trace that are well formed but contain no request to send, so that no row is dropped silently. */

/** Largest number of distinct reasons. Rows with further reasons count as "other reasons". */
const REASONS_MOST = 20;

export class SkippedRows {
  /** Rows that contain a request or are bad. */
  rows = 0;
  /** Rows that were skipped. */
  count = 0;
  readonly #reasons = new Map<string, number>();

  /** `cure`: how the user can select other rows. Null if no option does that. */
  constructor(readonly cure: string | null = null) {}

  readonly add = (reason: string): void => {
    this.count++;
    const short = reason.length > 80 ? `${reason.slice(0, 80)}…` : reason;
    const known = this.#reasons.has(short) || this.#reasons.size < REASONS_MOST ? short : "other reasons";
    this.#reasons.set(known, (this.#reasons.get(known) ?? 0) + 1);
  };

  /** Returns `3 rows, 2 passed over: Model is gpt-4`, with a count per reason if there are several. Returns null if no row was skipped. */
  text(): string | null {
    if (this.count === 0) return null;
    const reasons = [...this.#reasons].sort(([, a], [, b]) => b - a);
    const shown = reasons.map(([reason, count]) => (reasons.length > 1 ? `${reason} (${count})` : reason));
    const rows = this.rows + this.count;
    return `${rows} ${rows === 1 ? "row" : "rows"}, ${this.count} passed over: ${shown.join(", ")}`;
  }
}
