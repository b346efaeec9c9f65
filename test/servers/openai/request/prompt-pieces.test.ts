/** Tests that prompts and conversations of very many parts are read, and posted to the encoder, in pieces. */
import { expect, test } from "bun:test";
import type { Pieces } from "../../../../src/base/pieces.ts";
import { encodedPieces } from "../../../../src/servers/openai/request/prompts.ts";
import type { Limits } from "../../../../src/servers/openai/request/request.ts";
import { messagePieces } from "../../../../src/servers/vllm/openai/content.ts";
import type { Encoder, PromptPart } from "../../../../src/text/tokens/types.ts";

/** Runs work to its end, and counts its pieces. */
function run<R>(work: Pieces<R>): { readonly result: R; readonly pieces: number } {
  for (let pieces = 1; ; pieces++) {
    const { done, value } = work.next();
    if (done) return { result: value as R, pieces };
  }
}

test("10,000 parts are posted in three pieces, in order, and special tokens come only before the first one", async () => {
  const posted: number[] = [];
  const encoder: Encoder = {
    encode: (parts: readonly PromptPart[], _allowSpecial: boolean, addSpecial = false) => {
      posted.push(parts.length);
      return Promise.resolve(Uint32Array.from([...(addSpecial ? [1] : []), ...(parts as number[])]));
    },
    close() {},
  };
  const parts = Array.from({ length: 10_000 }, (_, at) => at);
  const { result } = run(encodedPieces(encoder, parts, false, true));
  expect([...(await result)]).toEqual([1, ...parts]);
  expect(posted).toEqual([4096, 4096, 1808]);
});

test("50,000 messages are read in pieces", () => {
  const messages = Array.from({ length: 50_000 }, () => ({ role: "user", content: "a" }));
  const shapes = messages.map(() => ({ harmony: false }));
  const { result, pieces } = run(messagePieces(shapes as never, messages, {} as Limits));
  expect(result.length).toBe(50_000);
  expect(pieces).toBeGreaterThan(50);
});
