/** Validates requests to an embedded engine. Unknown fields are errors, so that a misspelled field does not make a test pass. */
import { STOP_IDS_MOST } from "../engine/setup.ts";
import type { RunRequest } from "./run.ts";

const WORD = 2 ** 32 - 1;

type Check = (value: unknown) => boolean;
const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
const isId = whole(0, WORD);
/** Typed arrays of these types need no check of each element. */
const ids: Check = (value) =>
  value instanceof Uint32Array ||
  ((Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) &&
    Array.prototype.every.call(value, isId));
const flag: Check = (value) => typeof value === "boolean";
const anyIds: Check = (value) => ids(value) && (value as ArrayLike<number>).length > 0;

const ID = `token ids, whole numbers from 0 to ${WORD}`;
const FIELDS: Readonly<Record<keyof RunRequest, readonly [check: Check, takes: string]>> = {
  at: [(value) => Number.isFinite(value), "a time in microseconds on the engine's clock"],
  promptTokens: [whole(1), "a whole number of at least 1"],
  promptIds: [anyIds, `at least one of ${ID}`],
  maxTokens: [whole(1), "a whole number of at least 1"],
  minTokens: [whole(0), "a whole number of at least 0"],
  ignoreEos: [flag, "true or false"],
  stopTokenIds: [
    (value) => ids(value) && (value as ArrayLike<number>).length <= STOP_IDS_MOST,
    `at most ${STOP_IDS_MOST} ${ID}`,
  ],
  script: [ids, ID],
  seed: [isId, `a whole number from 0 to ${WORD}`],
  priority: [whole(-(2 ** 31), 2 ** 31 - 1), "a whole number of 32 bits"],
  cacheSalt: [(value) => typeof value === "string", "a text"],
  skipReadingPrefixCache: [flag, "true or false"],
  adapter: [whole(0), "a whole number of at least 0"],
  blocked: [flag, "true or false"],
};

/** Throws a TypeError for an unknown field or a missing prompt, and a RangeError for a wrong value. */
export function checkRequest(request: RunRequest): void {
  for (const key in request) {
    const value = request[key as keyof RunRequest];
    const field = Object.hasOwn(FIELDS, key) ? FIELDS[key as keyof RunRequest] : undefined;
    if (field === undefined)
      throw new TypeError(`${key}: no such field of a request; there are ${Object.keys(FIELDS).join(", ")}`);
    const [check, takes] = field;
    if (value !== undefined && !check(value)) throw new RangeError(`${key}: takes ${takes}, not ${shown(value)}`);
  }
  if ((request.promptIds === undefined) === (request.promptTokens === undefined))
    throw new TypeError("a request has promptTokens or promptIds, and not both");
}

/** Formats a value for messages. Not as JSON for numbers, because JSON has no NaN and Infinity. */
const shown = (value: unknown): string =>
  typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value)).slice(0, 80);
