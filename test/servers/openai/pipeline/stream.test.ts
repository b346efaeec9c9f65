/** Tests streams and whole answers whose client is slow or disconnects, or a choice of which fails. The sink is a list. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Finish, type Outcome } from "../../../../src/engine/interface/types.ts";
import { CollectedAnswer, type WholeAnswer } from "../../../../src/servers/openai/pipeline/collect.ts";
import type { AnswerContext } from "../../../../src/servers/openai/pipeline/context.ts";
import type { Form } from "../../../../src/servers/openai/pipeline/form.ts";
import { StreamedAnswer } from "../../../../src/servers/openai/pipeline/stream.ts";
import { UnsentIds } from "../../../../src/servers/openai/pipeline/unsent-ids.ts";
import { Logprobs, seededLogprobs } from "../../../../src/servers/openai/request/logprobs.ts";
import type { OutputOptions } from "../../../../src/servers/openai/request/output-options.ts";
import { MessagesForm } from "../../../../src/servers/vllm/messages/form.ts";
import { ChatForm, CompletionForm } from "../../../../src/servers/vllm/openai/form.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { contextOf, ListSink, PLAIN_OUTPUT } from "./streamed.ts";

const encoder = new TextEncoder();
/** Ids 0 to 255 are bytes, 256 is a special token, 257 is end-of-sequence. */
const vocabulary = vocabularyOf(
  [
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    encoder.encode("<|x|>"),
    encoder.encode("<|end|>"),
  ],
  new Set([256, 257]),
  257,
);

const REQUEST = { requestId: null };
function completionContext(given: Partial<OutputOptions>, outcomes: Outcome[]): AnswerContext {
  return contextOf(vocabulary, outcomes, {
    output: { ...PLAIN_OUTPUT, ...given },
    prompts: [{ tokens: 3, ids: null, echo: null, seed: 5 }],
    form: given.chat ? new ChatForm(REQUEST) : new CompletionForm(REQUEST),
  });
}

function streamed(given: Partial<OutputOptions> = {}, form: Form | null = null) {
  const outcomes: Outcome[] = [];
  const calls: string[] = [];
  const sink = new ListSink();
  const context = completionContext(given, outcomes);
  const answer = new StreamedAnswer(form === null ? context : { ...context, form });
  answer.sink = sink;
  for (const choice of answer.choices)
    choice.submission = {
      cancel: () => calls.push(`cancel ${choice.index}`),
      finish: (reason, tokens) => calls.push(`finish ${choice.index} ${Finish[reason]} ${tokens}`),
      release() {},
      cachedTokens: 0,
    };
  answer.accepted();
  const give = (text: string, finish: Finish | null = null, index = 0) => {
    const ids = Int32Array.from(encoder.encode(text));
    answer.choices[index]!.onTokens(ids, 0, ids.length, finish, -1);
  };
  return { answer, sink, outcomes, calls, give };
}

test("while the client is slow, tokens wait, and are then sent as one chunk", () => {
  const { answer, sink, outcomes, give } = streamed();
  for (const letter of "ab") give(letter);
  sink.full = true;
  for (const letter of "cdé\n") give(letter);
  expect(sink.texts.length + 1).toBe(2);
  sink.full = false;
  answer.onDrain();
  give("f");
  give("", Finish.Length);
  expect(sink.texts).toEqual(["a", "b", "cdé\n", "f", ""]);
  expect(sink.events.at(-1)).toBe("data: [DONE]\n\n");
  expect(sink.ended).toBe(true);
  expect(outcomes).toEqual(["length"]);
});

test("elysia#1801: a thousand clients that read nothing cost only the ids of their tokens, not one event", () => {
  const [clients, tokens] = [1000, 1000];
  const streams = Array.from({ length: clients }, () => streamed());
  const ids = Int32Array.from({ length: tokens }, (_, i) => 97 + (i % 26));
  const give = (from: number, to: number) => {
    for (let at = from; at < to; at++) {
      for (const { answer } of streams) answer.choices[0]!.onTokens(ids, at, 1, null, -1);
    }
  };
  const heapBytes = () => {
    Bun.gc(true);
    return process.memoryUsage().heapUsed;
  };
  give(0, 2);
  for (const { sink } of streams) sink.full = true;
  const before = heapBytes();
  give(2, tokens);
  // An event has 240 bytes. An id has 3 bytes, plus spare capacity.
  expect(heapBytes() - before).toBeLessThan(6 * clients * tokens);
  for (const { sink, answer } of streams) {
    expect(sink.events.length).toBe(2);
    sink.full = false;
    answer.onDrain();
    expect(sink.events.length).toBe(3);
  }
  expect(JSON.parse(streams[7]!.sink.events[2]!.slice(6)).choices[0].text).toHaveLength(tokens - 2);
});

test("unsent ids are returned unchanged", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 2 ** 24 - 1 }), { maxLength: 2000 }), (ids) => {
      const unsent = new UnsentIds();
      for (const id of ids) unsent.push(id);
      expect(unsent.toArray()).toEqual(ids);
      expect(ids.map((_, index) => unsent.at(index))).toEqual(ids);
      unsent.clear();
      expect([unsent.length, unsent.toArray()]).toEqual([0, []]);
    }),
  );
});

test("an answer that ends while the client is slow keeps its end until the client is ready", () => {
  const { answer, sink, outcomes, give } = streamed({ includeUsage: true });
  give("a");
  sink.full = true;
  give("b");
  give("c", Finish.Length);
  expect(outcomes).toEqual([]);
  sink.full = false;
  answer.onDrain();
  expect(sink.events.length).toBe(4);
  expect(sink.events[1]).toContain('"text":"bc","logprobs":null,"finish_reason":"length"');
  expect(sink.events[2]).toContain('"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3}');
  expect(outcomes).toEqual(["length"]);
});

test("a choice stops sending waiting tokens when the sink is full again", () => {
  const { answer, sink, give } = streamed({ n: 2 });
  give("a", null, 0);
  give("A", null, 1);
  sink.full = true;
  give("b", null, 0);
  give("B", null, 1);
  sink.full = false;
  const write = sink.write.bind(sink);
  sink.write = (event) => {
    sink.full = true;
    return write(event);
  };
  answer.onDrain();
  expect(sink.events.length).toBe(3);
  sink.full = false;
  answer.onDrain();
  expect(sink.events.length).toBe(4);
});

test("special tokens have no text, but count as output tokens", () => {
  const { answer, sink } = streamed({ includeUsage: true });
  for (const id of [65, 256, 66]) answer.choices[0]!.onTokens(Int32Array.of(id), 0, 1, null, -1);
  answer.choices[0]!.onTokens(Int32Array.of(257), 0, 1, Finish.Stop, -1);
  expect(sink.events.slice(0, 4).map((event) => JSON.parse(event.slice(6)).choices[0].text)).toEqual([
    "A",
    "",
    "B",
    "",
  ]);
  expect(sink.events[4]).toContain('"completion_tokens":4');
});

test.each([
  ["chat", () => new ChatForm(REQUEST)],
  ["completion", () => new CompletionForm(REQUEST)],
  ["messages", () => new MessagesForm(false)],
] as const)("%s: the fast path writes the same event for a plain token as the form", (kind, formOf) => {
  const ids = [104, 256, 105, 34, 10, 256, 226, 130, 172, 106, 107];
  const [frames, events] = [0, 1].map((slow) => {
    let asked = 0;
    const form = formOf();
    const frame = form.frame.bind(form);
    form.frame = (index: number) => {
      asked++;
      return slow ? null : frame(index);
    };
    const { answer, sink } = streamed({ chat: kind !== "completion" }, form);
    for (const id of ids) answer.choices[0]!.onTokens(Int32Array.of(id), 0, 1, null, -1);
    answer.choices[0]!.onTokens(Int32Array.of(257), 0, 1, Finish.Stop, -1);
    return { asked, text: sink.events.join("") };
  }) as [{ asked: number; text: string }, { asked: number; text: string }];
  expect(frames.text).toBe(events.text);
  // The fast path gets its frame after the first piece. Without a frame, each piece asks again.
  expect(frames.asked).toBe(1);
  expect(events.asked).toBe(ids.length);
});

test("a stop string ends the stream, and the engine is told the number of tokens once", () => {
  const { sink, calls, outcomes, give } = streamed({ text: { ...PLAIN_OUTPUT.text, stop: ["END"] } });
  for (const letter of "abEND") give(letter);
  give("more");
  expect(sink.texts.join("")).toBe("ab");
  expect(calls).toEqual(["finish 0 Stop 5"]);
  expect(outcomes).toEqual(["stop"]);
});

test("a disconnect cancels every running choice and is counted once", () => {
  const { answer, calls, outcomes, give } = streamed({ n: 3 });
  give("a", null, 0);
  give("a", Finish.Length, 1);
  answer.onGone();
  give("b", null, 0);
  expect(calls).toEqual(["cancel 0", "cancel 2"]);
  expect(outcomes).toEqual(["abort"]);
});

test("an answer that ended before its slow client disconnected is counted by its end", () => {
  const { answer, sink, calls, outcomes, give } = streamed({ n: 2 });
  give("a", null, 0);
  sink.full = true;
  give("b", Finish.Length, 0);
  give("c", Finish.Stop, 1);
  expect(outcomes).toEqual([]);
  answer.onGone();
  expect(calls).toEqual([]);
  expect(outcomes).toEqual(["length"]);
});

test("the choices' byte counts add up to the stream's bytes, with and without the fast path", () => {
  const { answer, sink, give } = streamed({ chat: true, n: 2, role: "assistant", includeUsage: true });
  for (const letter of "aé\n日") give(letter, null, 0);
  for (const letter of "xyz") give(letter, null, 1);
  expect(answer.choices.every(({ bytes }) => bytes > 0)).toBe(true);
  give("b", Finish.Length, 0);
  give("w", Finish.Stop, 1);
  const written = Buffer.byteLength(sink.events.join(""));
  expect(answer.choices[0]!.bytes + answer.choices[1]!.bytes).toBe(written);
});

test("a failed choice ends the stream and cancels the other choices", () => {
  const { sink, calls, outcomes, give } = streamed({ n: 2 });
  give("a", null, 0);
  give("", Finish.Error, 0);
  give("b", null, 1);
  expect(sink.events.slice(1)).toEqual([
    'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}\n\n',
    "data: [DONE]\n\n",
  ]);
  expect(calls).toEqual(["cancel 1"]);
  expect(outcomes).toEqual(["error"]);
});

test("a disconnect ends a whole answer: nothing is sent, running choices are cancelled, it is counted once", async () => {
  const outcomes: Outcome[] = [];
  const calls: number[] = [];
  const { promise, resolve } = Promise.withResolvers<WholeAnswer>();
  const answer = new CollectedAnswer(completionContext({ n: 2 }, outcomes), { collected: (_, body) => resolve(body) });
  for (const choice of answer.choices)
    choice.submission = { cancel: () => calls.push(choice.index), finish() {}, release() {}, cachedTokens: 0 };
  answer.choices[0]!.onTokens(Int32Array.of(65), 0, 1, Finish.Length, -1);
  answer.gone();
  answer.gone();
  expect(await promise).toBeNull();
  expect(calls).toEqual([1]);
  expect(outcomes).toEqual(["abort"]);
});

test("a stream that a plan of faults ends during its opening does not keep its first token for the client", () => {
  const outcomes: Outcome[] = [];
  let held = 0;
  const context = completionContext({ chat: true }, outcomes);
  const answer = new StreamedAnswer({
    ...context,
    server: { ...context.server, waiting: { held: (bytes) => (held += bytes) } },
  });
  const sink = new ListSink();
  answer.sink = sink;
  sink.write = () => {
    sink.full = true;
    answer.onFailed();
    return false;
  };
  answer.accepted();
  answer.choices[0]!.onTokens(Int32Array.of(65), 0, 1, null, -1);
  expect([held, outcomes]).toEqual([0, ["error"]]);
});

test("log probabilities depend only on seed and position", () => {
  const source = seededLogprobs(1000);
  expect(source(1, 7, 3, 5)).toEqual(source(1, 7, 3, 5));
  expect(source(2, 7, 3, 5)).not.toEqual(source(1, 7, 3, 5));
  const { logprob, rank, ids, logprobs } = source(1, 7, 3, 5);
  expect({ rank, first: ids[0], count: ids.length }).toEqual({ rank: 1, first: 7, count: 5 });
  expect(logprobs[0]).toBe(logprob);
  expect(logprobs.toSorted((a, b) => b - a)).toEqual([...logprobs]);
  expect(logprob).toBeLessThan(0);
});

test("probabilities of the vocabulary add up to 1 and fall by rank, and no token occurs twice", () => {
  const SIZES = [2, 31, 32, 33, 580, 2000];
  fc.assert(
    fc.property(fc.integer(), fc.constantFrom(...SIZES), fc.nat(1e9), fc.nat(100_000), (seed, size, any, position) => {
      const { ids, logprobs } = seededLogprobs(size)(seed, any % size, position, size);
      expect(new Set(ids).size).toBe(size);
      expect(logprobs.every((value) => Number.isFinite(value) && value < 0)).toBe(true);
      expect(logprobs.toSorted((a, b) => b - a)).toEqual([...logprobs]);
      const sum = logprobs.reduce((all, value) => all + Math.exp(value), 0);
      expect(sum).toBeLessThan(1 + 1e-5);
      expect(sum).toBeGreaterThan(1 - 1e-5);
      expect(seededLogprobs(size)(seed, any % size, position, 1).logprobs).toEqual(logprobs.slice(0, 1));
    }),
  );
});

test("tokens of logprob_token_ids share the probability that the sampled token leaves", () => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(600), fc.uniqueArray(fc.nat(600), { maxLength: 128 }), (seed, id, chosen) => {
      const shown = new Logprobs(seededLogprobs(600), seed, vocabulary, 0, true, chosen).chat([id], 0);
      const { content } = JSON.parse(shown) as { content: { top_logprobs: { logprob: number }[] }[] };
      const values = content[0]!.top_logprobs.map(({ logprob }) => logprob);
      expect(values.reduce((all, value) => all + Math.exp(value), 0)).toBeLessThan(1 + 1e-5);
      expect(Math.max(...values)).toBe(values[0]!);
    }),
  );
});
