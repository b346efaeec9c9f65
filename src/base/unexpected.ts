/**
 * Logs errors that the code did not foresee, and that cost one request, stream, connection or timer. Each error is
 * logged once, with its stack. The number of lines is limited, because a broken timer or client may repeat its error
 * for ever.
 */
import { epochMs } from "./clock.ts";
import { printableLines } from "./printable.ts";

/** Errors logged with their stacks in `WINDOW_MS`. Later ones are only counted. */
export const LOGGED_ERRORS_MAX = 20;
export const WINDOW_MS = 600_000;
/** Lines of a stack that are logged. */
export const STACK_LINES_MAX = 20;

type Print = (line: string) => void;

export class UnexpectedErrors {
  /** Errors that were logged. Several requests may fail with the same error. */
  readonly #known = new WeakSet<object>();
  #windowMs = Number.NEGATIVE_INFINITY;
  /** Errors in this window. */
  #count = 0;

  constructor(
    private readonly print: Print,
    private readonly nowMs: () => number,
  ) {}

  /** `what`: what failed and what follows, as the beginning of a line. */
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

/** 100, 1000, 10,000 … */
const isRound = (count: number) => count >= 100 && Number.isInteger(Math.log10(count));

const errors = new UnexpectedErrors((text) => console.error(printableLines(text)), epochMs);

/** Logs on stderr, for all servers of the process. See `UnexpectedErrors.log`. */
export function logUnexpected(what: string, error: unknown): void {
  errors.log(what, error);
}
