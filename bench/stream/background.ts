/** Adds load while streams are measured: scrapes, and prompts of 100,000 tokens from a second client. */
import { chat, complete, Page, prose, read } from "../lib/client.ts";

/** Tokens of a long prompt, tokens of its answer, and the time before the first prompt. */
const LONG = { tokens: 100_000, streamed: 20, afterMs: 3000 };

export interface Prompts {
  readonly count: number;
  readonly everyMs: number;
}

/** Sends different long prompts. `perToken`: words per token. Returns the tokens per prompt, from the server's counter. */
export async function longPrompts(port: number, perToken: number, { count, everyMs }: Prompts): Promise<number> {
  await Bun.sleep(LONG.afterMs);
  const before = await Page.of(port);
  const body = chat(prose(Math.round(LONG.tokens * perToken), 7), LONG.streamed);
  complete(await read({ port, body, streams: count, ramp: 1, everyMs }), count);
  const name = "vllm:prompt_tokens_total";
  return ((await Page.of(port)).value(name) - before.value(name)) / count;
}

/** Scrapes once per second until `over` settles. Returns the number of scrapes. */
export async function scrapes(port: number, over: Promise<unknown>): Promise<number> {
  let ended = false;
  const end = () => {
    ended = true;
  };
  void over.then(end, end);
  let count = 0;
  for (let dueMs = performance.now(); !ended; dueMs += 1000) {
    await Page.of(port);
    count++;
    await Promise.race([over.catch(() => {}), Bun.sleep(Math.max(0, dueMs + 1000 - performance.now()))]);
  }
  return count;
}
