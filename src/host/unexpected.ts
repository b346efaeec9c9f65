/**
 * Logs errors that the code did not foresee, and that cost one request, stream, connection or timer. Each error is
 * logged once, with its stack. The number of lines is limited, because a broken timer or client may repeat its error
 * for ever.
 */

/** Errors logged with their stacks. Later ones are only counted. */
export const LOGGED_ERRORS_MAX = 20;
/** Lines of a stack that are logged. */
export const STACK_LINES_MAX = 20;

type Print = (line: string) => void;

export class UnexpectedErrors {
  readonly #print: Print;
  /** Several requests may fail by the same error. */
  readonly #known = new WeakSet<object>();
  #count = 0;

  constructor(print: Print) {
    this.#print = print;
  }

  /** `what`: what failed and what follows, as the beginning of a line. */
  log(what: string, error: unknown): void {
    if (typeof error === "object" && error !== null) {
      if (this.#known.has(error)) return;
      this.#known.add(error);
    }
    this.#count++;
    if (this.#count <= LOGGED_ERRORS_MAX) this.#print(`understudy: ${what}: ${shown(error)}`);
    else if (isRound(this.#count))
      this.#print(
        `understudy: ${this.#count} unexpected errors; those after the first ${LOGGED_ERRORS_MAX} are not shown`,
      );
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

const errors = new UnexpectedErrors((line) => console.error(line));

/** Logs on stderr, for all servers of the process. See `UnexpectedErrors.log`. */
export function logUnexpected(what: string, error: unknown): void {
  errors.log(what, error);
}
