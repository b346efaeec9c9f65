/** Sends a mix to any server with OpenAI's completions, as its clients would, and says what became of it. */
import { WallClock } from "../../base/clock.ts";
import { bodyAtMost } from "../../base/read-at-most.ts";
import type { Mix, MixRequest } from "./request-mixes.ts";

/** How `sendMix` asks. */
export interface SendOptions {
  /** Default: the server's own. */
  readonly model?: string;
  /** Beside `authorization` for a key, say. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default 60: a request that takes longer is a failure. */
  readonly timeoutS?: number;
}

/** What became of one mix; the fields of `Truth` that a client can know. */
export interface Sent {
  /** All of the mix. */
  readonly requests: number;
  /** Answered to the end. */
  readonly finished: number;
  /** Left as the mix wanted. */
  readonly clientAborts: number;
  /** Answers other than 200. */
  readonly refused: number;
}

/** Resolves when every request has ended. Rejects when the server cannot be reached or a stream breaks off. */
export async function sendMix(url: string, mix: Mix, options: SendOptions = {}): Promise<Sent> {
  const clock = new WallClock();
  try {
    const startUs = clock.now();
    const ends = await Promise.all(
      mix.map(async (request) => {
        await new Promise<void>((resolve) => clock.at(startUs + request.atMs * 1000, resolve));
        return send(url, request, options, clock);
      }),
    );
    const count = (end: End) => ends.filter((one) => one === end).length;
    const [finished, clientAborts, refused] = [count("finished"), count("left"), count("refused")];
    return { requests: mix.length, finished, clientAborts, refused };
  } finally {
    clock.close();
  }
}

type End = "finished" | "left" | "refused";

const DEFAULT_TIMEOUT_S = 60;
/** Bytes of a refusal, and of what follows [DONE], that are read. */
const REFUSAL_MOST = 1 << 20;
/** Most characters of an event. */
const EVENT_MOST = 1 << 22;

async function send(url: string, request: MixRequest, options: SendOptions, clock: WallClock): Promise<End> {
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

async function readStream(stream: ReadableStream<Uint8Array>, leavesAfter: number | null): Promise<End> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let [chunks, tail] = [0, ""];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the stream ended without [DONE]");
    // Only the end of what was there before can be half of an empty line.
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
        // The end of the body too, so that the server has counted the request.
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
