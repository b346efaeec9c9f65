/** Fetches one metrics page over HTTP. Never rejects: the result is the page, or one sentence on why there is none. */
import type { Clock } from "../../base/clock.ts";
import { bodyAtMost } from "../../base/read-at-most.ts";

export interface PageFetchOptions {
  readonly timeoutS: number;
  readonly maxBytes: number;
  /** Value of the request header `Accept`. */
  readonly accept: string;
  /** Returns true after the watch was stopped. The fetch may then take another `GRACE_US`. */
  readonly stopped?: () => boolean;
}

/** Microseconds that a running fetch may still take after the watch was stopped. */
const GRACE_US = 2e6;
/** Microseconds between two looks at `stopped`. */
const LOOK_US = 100_000;

export interface FetchedPage {
  readonly bytes: Uint8Array;
  readonly contentType: string | null;
}

/** Why a fetch returned no page. */
export interface NoPage {
  readonly why: string;
  /** True if the fetch was cancelled because the watch was stopped. */
  readonly isStopped?: true;
}

/**
 * Fetches the page. Never rejects. Ends within the timeout, and keeps at most `maxBytes` of the body plus one chunk in memory.
 */
export async function fetchPage(
  url: string,
  clock: Clock,
  { timeoutS, maxBytes, accept, stopped = () => false }: PageFetchOptions,
): Promise<FetchedPage | NoPage> {
  const stop = new AbortController();
  let gaveUp = false;
  const cancelLook = onceStopped(clock, stopped, () => {
    gaveUp = true;
    stop.abort();
  });
  let timedOut = false;
  const cancel = clock.at(clock.now() + timeoutS * 1e6, () => {
    timedOut = true;
    stop.abort();
  });
  let answered = false;
  try {
    const response = await fetch(url, { headers: { accept }, signal: stop.signal });
    answered = true;
    if (!response.ok) return { why: `the server answered ${response.status} ${response.statusText}`.trimEnd() };
    const bytes = await bodyAtMost(response, maxBytes);
    if (bytes === null) return { why: `more than ${maxBytes / 2 ** 20} MiB of text; raise --max-mb to read it` };
    return { bytes, contentType: response.headers.get("content-type") };
  } catch (failure) {
    if (gaveUp) return { why: "stopped before the answer arrived", isStopped: true };
    if (timedOut) return { why: `no complete answer within ${timeoutS} s` };
    return { why: `${answered ? "the answer broke off" : "cannot reach the server"} (${reasonOf(failure)})` };
  } finally {
    cancel();
    cancelLook();
    stop.abort();
  }
}

/** Calls `act` once, `GRACE_US` after `stopped` returned true. Returns a function that cancels the polling. */
function onceStopped(clock: Clock, stopped: () => boolean, act: () => void): () => void {
  let sinceUs: number | null = null;
  let cancel = () => {};
  const look = () => {
    if (stopped()) sinceUs ??= clock.now();
    if (sinceUs !== null && clock.now() - sinceUs >= GRACE_US) act();
    else cancel = clock.at(clock.now() + LOOK_US, look);
  };
  look();
  return () => cancel();
}

/** Returns the reason of a failed fetch. Bun puts the error code on the error, Node on its cause. */
function reasonOf(failure: unknown): string {
  const { code, cause, message } = failure as {
    code?: string;
    cause?: { code?: string; message?: string };
    message?: string;
  };
  return code ?? cause?.code ?? cause?.message ?? message ?? String(failure);
}
