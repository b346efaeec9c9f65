/** Generates prompts of a given length that share no prefix. */

const WORDS =
  "the of a model server that request tokens with stream answer queue memory between cache first block every step under load time while measure when clients router window slow again before number result system value other batch latency network schedule length random process machine because compare through signal report counter history average result without another possible".split(
    " ",
  );

/** Returns `words` words that begin with the connection's number. Equal seeds give equal words. */
export function prose(words: number, seed = 1): string {
  const parts = ["@@@@@@"];
  let state = seed >>> 0;
  for (let i = 1; i < words; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    parts.push(WORDS[(state >>> 8) % WORDS.length]!);
  }
  return parts.join(" ");
}

/** Returns the body of a chat that streams exactly `tokens` tokens. */
export function chat(content: string, tokens: number, more: Readonly<Record<string, unknown>> = {}) {
  return { messages: [{ role: "user", content }], stream: true, max_tokens: tokens, ignore_eos: true, ...more };
}

/** Returns the number of words per token of `prose`, from the server's usage of a request. */
export async function wordsPerToken(port: number): Promise<number> {
  const words = 2000;
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...chat(prose(words), 1), stream: false }),
  });
  const { usage } = (await response.json()) as { usage: { prompt_tokens: number } };
  return words / usage.prompt_tokens;
}
