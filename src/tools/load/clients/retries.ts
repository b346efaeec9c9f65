/**
 * Decides whether a failed request is sent again, and after which pause. Follows common clients (openai Python 3.52,
 * `_base_client.py`). Lost connections and the statuses 408, 409, 429 and 500 or above are retried. The pause is the time that
 * the server asks for, else 0.5 s, doubled each time.
 */
import { epochSeconds } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { FailureClass } from "../requests/types.ts";

const STATUSES = [408, 409, 429];
const FIRST_US = 500_000;
const MOST_US = 8_000_000;
/** Largest share by which a pause is randomly shortened, so that clients do not return all at once. */
const JITTER = 0.25;
/** Longest pause in seconds that a server may ask for. With a longer one, the request is not retried. */
export const RETRY_AFTER_MOST_S = 120;

export interface FailedAttempt {
  readonly kind: FailureClass;
  /** HTTP status. 0 if no response came. */
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** Returns the microseconds until the retry, or null if there is none. `before`: number of earlier retries. */
export function retryInUs(attempt: FailedAttempt, before: number, random: Random): number | null {
  const { kind, status, headers } = attempt;
  const should = headers.get("x-should-retry");
  const lost = kind === "connect" || (kind === "mid-stream end" && status === 0);
  const refused = kind === "status" && should !== "false";
  const again = lost || (refused && (should === "true" || STATUSES.includes(status) || status >= 500));
  if (!again) return null;
  const retryAfter = retryAfterS(headers);
  if (retryAfter !== null) return retryAfter > RETRY_AFTER_MOST_S ? null : retryAfter * 1e6;
  const waitUs = Math.min(MOST_US, FIRST_US * 2 ** Math.min(before, 16));
  return Math.round(waitUs * (1 - (JITTER * random()) / 2 ** 32));
}

/**
 * Returns the seconds that the server asks for: of `retry-after-ms`, which OpenAI's clients know, or of Retry-After (RFC 9110,
 * section 10.2.3), in seconds or as a date. Null if it does not ask.
 */
function retryAfterS(headers: ReadonlyMap<string, string>): number | null {
  const milliseconds = numberIn(headers.get("retry-after-ms"));
  if (milliseconds !== null) return milliseconds / 1000;
  const text = headers.get("retry-after");
  const seconds = numberIn(text);
  if (seconds !== null || text === undefined) return seconds;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? null : Math.max(0, atMs / 1000 - epochSeconds());
}

const numberIn = (text: string | undefined): number | null =>
  text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : null;
