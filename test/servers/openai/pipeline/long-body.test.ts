/** Tests that a long answer has the same bytes in parts as at once, is generated in short pieces, and keeps little memory. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { LongBody, LongTexts } from "../../../../src/servers/openai/pipeline/long-body.ts";
import { Logprobs, seededLogprobs } from "../../../../src/servers/openai/request/logprobs.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { serve } from "../../../server.ts";
import { times } from "../../../size.ts";

/** A token per byte. Most bytes of the upper half are only parts of characters. */
const vocabulary = vocabularyOf(
  Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  new Set([0]),
  0,
);
const source = seededLogprobs(256);
const ids = fc.array(fc.nat(255), { maxLength: 60 });
const logprobs = (count: number, chosen: readonly number[] | null = null) =>
  new Logprobs(source, 7, vocabulary, count, false, chosen);

function whole(parts: Iterable<string>): string {
  return [...parts].join("");
}

test("log probabilities in parts equal those written at once", () => {
  fc.assert(
    fc.property(
      ids,
      ids,
      fc.nat(20),
      fc.option(fc.array(fc.nat(255), { maxLength: 5 })),
      (prompt, said, count, chosen) => {
        expect(whole(logprobs(count, chosen).chatParts(said, 3))).toBe(logprobs(count, chosen).chat(said, 3));
        // A second list continues the text offsets and unfinished characters of the first.
        const parts = logprobs(count, chosen);
        const value = JSON.parse(whole(parts.completionParts(said, 0, prompt, count))) as Record<string, unknown[]>;
        const more = JSON.parse(whole(parts.completionParts(said, said.length))) as Record<string, unknown[]>;
        const once = JSON.parse(whole(logprobs(count, chosen).completionParts([...said, ...said], 0, prompt, count)));
        expect(Object.fromEntries(Object.keys(value).map((key) => [key, [...value[key]!, ...more[key]!]]))).toEqual(
          once,
        );
      },
    ),
  );
});

test("a body has the same bytes with its texts in any order, kept or generated again", () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.string({ unit: "grapheme" })), { maxLength: 4 }), fc.boolean(), (texts, long) => {
      const size = long ? 50_000 : 1;
      const all = texts.map((parts) => parts.map((part) => JSON.stringify(part.repeat(size))));
      const made = new LongTexts();
      const marks = all.map((parts) => made.text(1, () => parts));
      const body = new LongBody(`{${marks.reverse().join("|")}}`, made);
      const expected = `{${all
        .toReversed()
        .map((parts) => parts.join(""))
        .join("|")}}`;
      expect(body.toString()).toBe(expected);
      atOnce(body.measure(() => {}));
      expect(body.bytes).toBe(Buffer.byteLength(expected));
      expect(Buffer.concat([...body.parts()]).equals(Buffer.from(expected))).toBe(true);
      body.drop();
    }),
    { numRuns: times(20) },
  );
});

/** Reports whether the parts are kept: then they are the same objects each time. */
function isKept(body: LongBody): boolean {
  const [first, second] = [body.parts().next().value, body.parts().next().value];
  return first === second;
}

test("generating a long answer yields at least every 128 Ki bytes", () => {
  const parts = () => logprobs(20).promptParts(Array.from({ length: 5000 }, (_, i) => i % 256));
  const long = new LongTexts();
  const body = new LongBody(long.text(1, parts), long);
  let before = 0;
  let most = 0;
  for (const _ of body.measure(() => {})) {
    most = Math.max(most, body.bytes - before);
    before = body.bytes;
  }
  expect(body.bytes).toBeGreaterThan(5_000_000);
  expect(most).toBeLessThan(131_072);
  body.drop();
});

test("bytes that wait to be sent are limited for all answers together, and freed afterwards", () => {
  const megabyte = "x".repeat(2 ** 20);
  const bodies = Array.from({ length: 12 }, () => {
    const long = new LongTexts();
    const mark = long.text(1, () => Array.from({ length: 10 }, () => megabyte));
    const body = new LongBody(mark, long);
    atOnce(body.measure(() => {}));
    return body;
  });
  expect(bodies.filter(isKept).length).toBe(6);
  for (const body of bodies) body.drop();
  const long = new LongTexts();
  const again = new LongBody(
    long.text(1, () => [megabyte]),
    long,
  );
  atOnce(again.measure(() => {}));
  expect(isKept(again)).toBe(true);
  again.drop();
});

const FLAGS = ["--served-model-name", "m", "--timing", "none", "--max-model-len", "131072", "--max-logprobs", "20"];

test("a long answer over a socket has the right length, and its client may disconnect before the end", async () => {
  const server = await serve([...FLAGS, "--num-gpu-blocks-override", "65536"]);
  try {
    const post = (body: object, signal?: AbortSignal) =>
      fetch(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", max_tokens: 2, seed: 1, ignore_eos: true, ...body }),
        keepalive: false,
        ...(signal ? { signal } : {}),
      });
    const prompt = Array.from({ length: 30_000 }, (_, i) => 300 + (i % 500));
    const answer = await post({ prompt, prompt_logprobs: 20 });
    const length = Number(answer.headers.get("content-length"));
    const text = await answer.text();
    expect([answer.status, length]).toEqual([200, Buffer.byteLength(text)]);
    expect(length).toBeGreaterThan(16 * 2 ** 20);
    const { choices } = JSON.parse(text) as { choices: { prompt_logprobs: (object | null)[] }[] };
    expect(choices[0]!.prompt_logprobs.map((row) => row && Object.keys(row).length >= 20)).toEqual([
      null,
      ...Array(prompt.length - 1).fill(true),
    ]);
    // After a disconnect in the middle of an answer, the server works as before.
    const leaving = new AbortController();
    await post({ prompt, prompt_logprobs: 20 }, leaving.signal);
    leaving.abort();
    const echoed = (await (await post({ prompt: "Hello there", echo: true, logprobs: 3 })).json()) as {
      choices: { logprobs: { tokens: string[] } }[];
    };
    expect(echoed.choices[0]!.logprobs.tokens.join("")).toStartWith("Hello there");
  } finally {
    await server.stop();
  }
}, 60_000);

test("many log probabilities of a response are generated in parts and belong to its tokens", async () => {
  const server = await serve(["--served-model-name", "m", "--timing", "none"]);
  try {
    const asked = (tokens: number) => ({
      ...{ input: "Hello", max_output_tokens: tokens, temperature: 0, top_logprobs: 5, ignore_eos: true },
      include: ["message.output_text.logprobs"],
    });
    const entries = async (tokens: number) => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify(asked(tokens));
      const answer = await (await fetch(`${server.url}/v1/responses`, { method: "POST", headers, body })).json();
      const { output } = answer as { output: { content: { logprobs: { top_logprobs: readonly unknown[] }[] }[] }[] };
      return output[0]!.content[0]!.logprobs;
    };
    const [short, long] = [await entries(100), await entries(400)];
    expect([short.length, long.length, long.at(-1)!.top_logprobs.length]).toEqual([100, 400, 5]);
    expect(long.slice(0, 100)).toEqual(short);
  } finally {
    await server.stop();
  }
});
