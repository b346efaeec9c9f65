/**
 * Errors of requests that FastAPI, pydantic or vLLM refuse before any generation. Their bodies are byte for byte those of vLLM
 * 0.33 (`entrypoints/serve/exception_handling`), because clients parse them.
 */
import { reprString } from "./repr.ts";

/** The answer to a request that is refused before any generation. */
export interface ErrorAnswer {
  readonly status: number;
  /** The exact text of the body, in JSON. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** True if each API sends the body as it is, instead of in its own form of errors. */
  readonly asItIs?: boolean;
}

/** An error whose body is long and stays bytes, because copying a long text stops the event loop. */
export class LongError implements ErrorAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly asItIs?: boolean;
  readonly #bytes: Uint8Array<ArrayBuffer>;

  /** `bytes`: JSON as UTF-8, in place of the body of `answer`. */
  constructor({ status, headers, asItIs }: Omit<ErrorAnswer, "body">, bytes: Uint8Array<ArrayBuffer>) {
    this.status = status;
    if (headers !== undefined) this.headers = headers;
    if (asItIs !== undefined) this.asItIs = asItIs;
    this.#bytes = bytes;
  }

  /** The body as UTF-8. The memory can be freed once the answer is sent. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  get body(): string {
    return new TextDecoder().decode(this.#bytes);
  }
}

/** Thrown if vLLM raises an error that pydantic does not collect. `read-body.ts` catches it and returns its answer. */
export class RefusedRequest {
  constructor(readonly answer: ErrorAnswer) {}
}

/** Stops reading a request, which then gets this answer. Throws `RefusedRequest`. */
export function refuse(answer: ErrorAnswer): never {
  throw new RefusedRequest(answer);
}

/** Returns vLLM's error with the status `code`. Removes file paths and memory addresses from the message, like vLLM. */
export function errorAnswer(message: string, type: string, param: string | null, code: number): ErrorAnswer {
  return { status: code, body: JSON.stringify({ error: { message: sanitize(message), type, param, code } }) };
}

const ADDRESS = / at 0x[0-9a-fA-F]+>/g;
const TRACEBACK = /\n?\s*File "[^"]+", line \d+, in \S+(\n\s+.*)?/gu;
const SYSTEM_PATH = /\/(?:home|usr|opt|var|tmp|root|lib|mnt|srv)(?:\/[\p{L}\p{N}_.-]+)+/gu;
const FILE_PATH = /(?:\/[\p{L}\p{N}_-]+)+\/[\p{L}\p{N}_-]+\.[\p{L}\p{N}_]+/gu;

/** vLLM's `sanitize_message`: removes memory addresses and tracebacks, replaces file paths and trims the message. */
function sanitize(message: string): string {
  let clean = message;
  if (clean.includes(" at 0x")) clean = clean.replace(ADDRESS, ">");
  if (clean.includes('File "')) clean = clean.replace(TRACEBACK, "");
  if (clean.includes("/")) clean = clean.replace(SYSTEM_PATH, "<path>").replace(FILE_PATH, "<path>");
  return clean.trim();
}

/** Error for a body that is not text, nests deeper than Python allows, or has an integer of more than 4,300 digits. */
export const unparsableBody: ErrorAnswer = { status: 400, body: '{"detail":"There was an error parsing the body"}' };

export const unsupportedMediaType: ErrorAnswer = errorAnswer(
  "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
  "Bad Request",
  null,
  400,
);

/** Returns the error for a `json.JSONDecodeError`, as FastAPI and vLLM report it. `position`: offset in code points. */
export function invalidJson(message: string, position: number): ErrorAnswer {
  const loc = `body.${position}`;
  const entry = `{'type': 'json_invalid', 'loc': '${loc}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': ${reprString(message)}}}`;
  return errorAnswer(`1 validation error:\n  ${entry}`, "Bad Request", loc, 400);
}
