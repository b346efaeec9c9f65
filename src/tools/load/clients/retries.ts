/**
 * Is a request that got no answer sent again, and when? As the clients of users do (openai Python 3.52, `_base_client.py`): on
 * a connection that failed, on 408, 409, 429 and from 500 on; after what the server says, else after 0.5 s doubled each time.
 */
import { epochSeconds } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { FailureClass } from "../requests/types.ts";

const STATUSES = [408, 409, 429];
const FIRST_US = 500_000;
const MOST_US = 8_000_000;
/** So much of the wait is left out at most, so that not all come back at once. */
const JITTER = 0.25;
/** Who is told to come back later than this gives up. */
export const RETRY_AFTER_MOST_S = 120;

export interface Failed {
  readonly kind: FailureClass;
  /** 0: none came. */
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** Microseconds until it is sent again; null: it is not. `before`: how often it was sent again before. */
export function retryInUs(failed: Failed, before: number, random: Random): number | null {
  const { kind, status, headers } = failed;
  const should = headers.get("x-should-retry");
  const lost = kind === "connect" || (kind === "mid-stream end" && status === 0);
  const refused = kind === "status" && should !== "false";
  const again = lost || (refused && (should === "true" || STATUSES.includes(status) || status >= 500));
  if (!again) return null;
  const toldS = retryAfterS(headers);
  if (toldS !== null) return toldS > RETRY_AFTER_MOST_S ? null : toldS * 1e6;
  const waitUs = Math.min(MOST_US, FIRST_US * 2 ** Math.min(before, 16));
  return Math.round(waitUs * (1 - (JITTER * random()) / 2 ** 32));
}

/** RFC 9110, section 10.2.3: seconds or a date; before it the milliseconds that OpenAI's clients know. Null: not said. */
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
