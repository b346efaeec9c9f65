/**
 * Refusals that FastAPI and pydantic give before the server looks at a request, in the form that vLLM 0.33 gives them
 * (`entrypoints/serve/exception_handling`), byte for byte.
 */
import { reprString } from "./repr.ts";

/** An answer that ends a request before any generation: exact status, body and what the headers need. */
export interface ErrorAnswer {
  readonly status: number;
  /** The exact JSON text. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** No dialect puts it into its own form. */
  readonly asItIs?: boolean;
}

/** An answer whose JSON is long and stays bytes: as a text it would be copied in one go, which stops the event loop. */
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

  /** Freed when the answer is sent. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  get body(): string {
    return new TextDecoder().decode(this.#bytes);
  }
}

/** Thrown where Python raises through pydantic. `read-body.ts` catches it and returns its answer. */
export class Refused {
  constructor(readonly answer: ErrorAnswer) {}
}

/** `{"error":{message,type,param,code}}` with the status `code`. The message loses paths and addresses as vLLM's does. */
export function errorAnswer(message: string, type: string, param: string | null, code: number): ErrorAnswer {
  return { status: code, body: JSON.stringify({ error: { message: sanitize(message), type, param, code } }) };
}

const ADDRESS = / at 0x[0-9a-fA-F]+>/g;
const TRACEBACK = /\n?\s*File "[^"]+", line \d+, in \S+(\n\s+.*)?/gu;
const SYSTEM_PATH = /\/(?:home|usr|opt|var|tmp|root|lib|mnt|srv)(?:\/[\p{L}\p{N}_.-]+)+/gu;
const FILE_PATH = /(?:\/[\p{L}\p{N}_-]+)+\/[\p{L}\p{N}_-]+\.[\p{L}\p{N}_]+/gu;

/** `sanitize_message`: no memory addresses, tracebacks or file paths; no blanks around. */
function sanitize(message: string): string {
  let clean = message;
  if (clean.includes(" at 0x")) clean = clean.replace(ADDRESS, ">");
  if (clean.includes('File "')) clean = clean.replace(TRACEBACK, "");
  if (clean.includes("/")) clean = clean.replace(SYSTEM_PATH, "<path>").replace(FILE_PATH, "<path>");
  return clean.trim();
}

/** The body is not UTF-8, is nested deeper than Python allows, or has an integer of more than 4,300 digits. */
export const unparsableBody: ErrorAnswer = { status: 400, body: '{"detail":"There was an error parsing the body"}' };

export const unsupportedMediaType: ErrorAnswer = errorAnswer(
  "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
  "Bad Request",
  null,
  400,
);

/** `json.JSONDecodeError` as FastAPI reports it; `position` counts code points. */
export function invalidJson(message: string, position: number): ErrorAnswer {
  const loc = `body.${position}`;
  const entry = `{'type': 'json_invalid', 'loc': '${loc}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': ${reprString(message)}}}`;
  return errorAnswer(`1 validation error:\n  ${entry}`, "Bad Request", loc, 400);
}
