/** Sends a request mix to any server with OpenAI's completions API, as real clients would, and counts how the requests ended. */
import { WallClock } from "../../base/clock.ts";
import { bodyAtMost } from "../../base/read-at-most.ts";
import type { Mix, MixRequest } from "./request-mixes.ts";

/** Settings of the requests that `sendMix` sends. */
export interface SendOptions {
  /** Model name of the requests. Default: left out, so the server chooses. */
  readonly model?: string;
  /** Request headers in addition to `content-type`, for example `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Seconds after which a request counts as failed. Default 60. */
  readonly timeoutS?: number;
}

/** Numbers of requests of a mix by their end. These are the fields of `Truth` that a client can know. */
export interface MixOutcome {
  /** All requests of the mix. */
  readonly requests: number;
  /** Requests that were answered to the end. */
  readonly finished: number;
  /** Requests whose client disconnected, as the mix said. */
  readonly clientAborts: number;
  /** Requests that were answered with another status than 200. */
  readonly refused: number;
}

/** Sends the mix. Resolves when every request has ended. Rejects if the server cannot be reached, or if a stream breaks off. */
export async function sendMix(url: string, mix: Mix, options: SendOptions = {}): Promise<MixOutcome> {
  const clock = new WallClock();
  try {
    const startUs = clock.now();
    const ends = await Promise.all(
      mix.map(async (request) => {
        await new Promise<void>((resolve) => clock.at(startUs + request.atMs * 1000, resolve));
        return send(url, request, options, clock);
      }),
    );
    const count = (end: RequestEnd) => ends.filter((outcome) => outcome === end).length;
    const [finished, clientAborts, refused] = [count("finished"), count("left"), count("refused")];
    return { requests: mix.length, finished, clientAborts, refused };
  } finally {
    clock.close();
  }
}

type RequestEnd = "finished" | "left" | "refused";

const DEFAULT_TIMEOUT_S = 60;
/** Maximum number of bytes that are read of a refusal, and of a stream after [DONE]. */
const REFUSAL_MOST = 1 << 20;
/** Maximum number of characters of one event. */
const EVENT_MOST = 1 << 22;

async function send(url: string, request: MixRequest, options: SendOptions, clock: WallClock): Promise<RequestEnd> {
  const { prompt, maxTokens, leavesAfter, priority } = request;
  const stop = new AbortController();
  const timeoutS = options.timeoutS ?? DEFAULT_TIMEOUT_S;
  const cancel = clock.at(clock.now() + timeoutS * 1e6, () => stop.abort(new Error(`no end within ${timeoutS} s`)));
  const body = {
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(priority === 0 ? {} : { priority }),
    ...{ prompt, max_tokens: maxTokens, stream: true },
  };
  try {
    const response = await fetch(new URL("/v1/completions", url), {
      method: "POST",
      headers: { "content-type": "application/json", ...options.headers },
      body: JSON.stringify(body),
      signal: stop.signal,
    });
    if (response.status !== 200 || response.body === null) {
      await bodyAtMost(response, REFUSAL_MOST);
      return "refused";
    }
    if (leavesAfter === 0) return "left";
    return await readStream(response.body, leavesAfter);
  } finally {
    cancel();
    stop.abort();
  }
}

async function readStream(stream: ReadableStream<Uint8Array>, leavesAfter: number | null): Promise<RequestEnd> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let [chunks, tail] = [0, ""];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the stream ended without [DONE]");
    // Only the last character of the earlier text can belong to the empty line that ends an event.
    const from = Math.max(0, tail.length - 1);
    tail += decoder.decode(value, { stream: true });
    if (tail.indexOf("\n\n", from) < 0) {
      if (tail.length > EVENT_MOST) throw new Error(`an event of more than ${EVENT_MOST} characters`);
      continue;
    }
    const events = tail.split("\n\n");
    tail = events.pop()!;
    for (const event of events) {
      if (event === "data: [DONE]") {
        // Read the body to its end, so that the server has counted the request when this returns.
        for (let bytes = 0; bytes < REFUSAL_MOST; ) {
          const rest = await reader.read();
          if (rest.done) break;
          bytes += rest.value.length;
        }
        return "finished";
      }
      if (event.startsWith("data:") && ++chunks === leavesAfter) return "left";
    }
  }
}
