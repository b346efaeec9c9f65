/** Answers as a server would send them, byte by byte, for tests of their readers. */
import { Patterns } from "../../../src/tools/load/answers/answer.ts";
import { ClientExchange } from "../../../src/tools/load/clients/exchange.ts";
import type { LoadDialect } from "../../../src/tools/load/requests/dialects.ts";
import type { RequestRecord } from "../../../src/tools/load/requests/types.ts";

export const HEAD =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

export const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
export const END = "0\r\n\r\n";
export const event = (value: unknown, end = "\n\n"): string =>
  `data: ${typeof value === "string" ? value : JSON.stringify(value)}${end}`;

const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_790_000_000, model: "m" };

export interface ChunkOptions {
  readonly delta?: unknown;
  readonly finish?: string;
  /** Number of output tokens so far, if the server states it with each chunk. */
  readonly so?: number;
}

export const chatEvent = ({ delta = {}, finish, so }: ChunkOptions) => ({
  ...base,
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finish ?? null }],
  ...(so === undefined ? {} : { usage: { prompt_tokens: 7, total_tokens: 7 + so, completion_tokens: so } }),
});

export const usageEvent = (tokens: number) => ({
  ...base,
  choices: [],
  usage: { prompt_tokens: 7, total_tokens: 7 + tokens, completion_tokens: tokens },
});

/** Times in milliseconds, and the events sent then: 5 tokens in 4 chunks. From section 3 of the reference on load generators. */
export const workedExample = (counts: boolean): readonly (readonly [ms: number, text: string])[] => {
  const so = (tokens: number) => (counts ? { so: tokens } : {});
  return [
    [0, HEAD],
    [100, chunk(event(chatEvent({ delta: { role: "assistant", content: "" }, ...so(0) })))],
    [150, chunk(event(chatEvent({ delta: { content: "A" }, ...so(1) })))],
    [200, chunk(event(chatEvent({ delta: { content: "BC" }, ...so(3) })))],
    [250, chunk(event(chatEvent({ delta: { content: "" }, ...so(4) })))],
    [300, chunk(event(chatEvent({ delta: { content: "D" }, ...so(5) })))],
    [305, chunk(event(chatEvent({ finish: "stop", ...so(5) })))],
    [310, chunk(event(usageEvent(5)))],
    [311, chunk(event("[DONE]")) + END],
  ];
};

export interface ExchangeResult {
  readonly exchange: ClientExchange;
  readonly ended: boolean;
}

/** Passes the pieces to a new exchange at their times. `patterns` may come from earlier answers. */
export function read(
  pieces: readonly (readonly [us: number, bytes: Uint8Array])[],
  {
    patterns = new Patterns(),
    stream = true,
    dialect = "openai-chat" as LoadDialect,
    keepText = false,
    closes = false,
  } = {},
): ExchangeResult {
  let ended = false;
  const exchange = new ClientExchange({ dialect, stream, patterns, expected: 4, keepText }, () => {
    ended = true;
  });
  exchange.sent(0);
  let lastUs = 0;
  for (const [us, bytes] of pieces) {
    if (!exchange.over) exchange.data(bytes, us);
    lastUs = us;
  }
  if (closes && !exchange.over) exchange.lost(lastUs, "the server closed the connection");
  exchange.settle();
  return { exchange, ended };
}

export function recordOf(
  { answer, status, sendUs, endUs }: ClientExchange,
  more: Partial<RequestRecord> = {},
): RequestRecord {
  const { chunks } = answer;
  return {
    index: 0,
    requestId: "r0",
    intendedUs: 0,
    sendUs,
    firstUs: chunks > 0 ? answer.chunkUs[0]! : Number.NaN,
    lastUs: chunks > 0 ? answer.chunkUs[chunks - 1]! : Number.NaN,
    endUs,
    chunkUs: answer.chunkUs.slice(0, chunks),
    chunkTokens: answer.chunkTokens.slice(0, chunks),
    inputTokens: Math.max(0, answer.promptTokens),
    outputTokens: answer.outputTokens >= 0 ? answer.outputTokens : chunks,
    usage: answer.outputTokens >= 0,
    wantedTokens: null,
    cachedTokens: answer.cachedTokens,
    status,
    failure: answer.failure,
    retries: 0,
    disturbed: null,
    done: answer.done,
    ...more,
  };
}

export const bytesOf = (text: string): Uint8Array => Buffer.from(text);
