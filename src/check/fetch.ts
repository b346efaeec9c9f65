/** What does a server answer to a scrape? Always something: the page, or in one sentence why there is none. */
import type { Clock } from "../clock.ts";

export interface FetchOptions {
  readonly timeoutS: number;
  readonly maxBytes: number;
  /** The header `Accept`. */
  readonly accept: string;
}

export interface Page {
  readonly bytes: Uint8Array;
  readonly contentType: string | null;
}

/** Never rejects; ends within the timeout and holds at most `maxBytes` of the body and one piece. */
export async function fetchPage(
  url: string,
  clock: Clock,
  { timeoutS, maxBytes, accept }: FetchOptions,
): Promise<Page | { readonly why: string }> {
  const stop = new AbortController();
  let timedOut = false;
  const cancel = clock.at(clock.now() + timeoutS * 1e6, () => {
    timedOut = true;
    stop.abort();
  });
  let answered = false;
  try {
    const response = await fetch(url, { headers: { accept }, signal: stop.signal });
    answered = true;
    if (!response.ok) return { why: `it answered ${response.status} ${response.statusText}`.trimEnd() };
    const bytes = await readAtMost(response, maxBytes);
    if (bytes === null) return { why: `more than ${maxBytes / 2 ** 20} MiB of text; --max-mb reads more` };
    return { bytes, contentType: response.headers.get("content-type") };
  } catch (failure) {
    if (timedOut) return { why: `no complete answer within ${timeoutS} s` };
    return { why: `${answered ? "the answer broke off" : "cannot reach it"} (${reasonOf(failure)})` };
  } finally {
    cancel();
    stop.abort();
  }
}

async function readAtMost(response: Response, maxBytes: number): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  if (response.body !== null) {
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > maxBytes) {
        void reader.cancel().catch(() => undefined);
        return null;
      }
      pieces.push(value);
    }
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** Bun has the code on the error, Node on its cause. */
function reasonOf(failure: unknown): string {
  const { code, cause, message } = failure as {
    code?: string;
    cause?: { code?: string; message?: string };
    message?: string;
  };
  return code ?? cause?.code ?? cause?.message ?? message ?? String(failure);
}
