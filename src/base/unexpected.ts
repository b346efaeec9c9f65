/**
 * Logs unexpected errors, each of which ends one request, stream, connection or timer. Each error is logged once, with its
 * stack. The number of lines is limited, because a broken timer or client may repeat its error for ever.
 */
import { epochMs } from "./clock.ts";
import { printableLines } from "./printable.ts";

/** Most errors in `WINDOW_MS` that are logged with their stacks. Later errors are only counted. */
export const LOGGED_ERRORS_MAX = 20;
export const WINDOW_MS = 600_000;
/** Most lines of a stack that are logged. */
export const STACK_LINES_MAX = 20;

type Print = (line: string) => void;

export class UnexpectedErrors {
  /** Errors that have already been logged, because several requests may fail with the same error. */
  readonly #known = new WeakSet<object>();
  #windowMs = Number.NEGATIVE_INFINITY;
  /** Number of errors in the current window of `WINDOW_MS`. */
  #count = 0;

  constructor(
    private readonly print: Print,
    private readonly nowMs: () => number,
  ) {}

  /** Logs an error. `what`: start of the log line, which says what failed and what follows. */
  log(what: string, error: unknown): void {
    if (typeof error === "object" && error !== null) {
      if (this.#known.has(error)) return;
      this.#known.add(error);
    }
    const nowMs = this.nowMs();
    if (nowMs - this.#windowMs > WINDOW_MS) {
      this.#windowMs = nowMs;
      this.#count = 0;
    }
    this.#count++;
    if (this.#count <= LOGGED_ERRORS_MAX) this.print(`understudy: ${what}: ${shown(error)}`);
    else if (isRound(this.#count))
      this.print(`understudy: ${this.#count} unexpected errors within 10 minutes; ${LOGGED_ERRORS_MAX} were shown`);
  }
}

function shown(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stack = "" } = error;
  const head = `${error.name}: ${error.message}`;
  const text = stack.includes(error.message) ? stack : `${head}\n${stack}`;
  return text.split("\n").slice(0, STACK_LINES_MAX).join("\n");
}

/** Reports whether the count is 100, 1000, 10,000 and so on. */
const isRound = (count: number) => count >= 100 && Number.isInteger(Math.log10(count));

const errors = new UnexpectedErrors((text) => console.error(printableLines(text)), epochMs);

/** Logs an error on stderr. All servers of the process share the limit on lines. See `UnexpectedErrors.log`. */
export function logUnexpected(what: string, error: unknown): void {
  errors.log(what, error);
}
