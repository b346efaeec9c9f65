/** Tests that an event of megabytes is written in parts, with no other event between them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Finish, type Outcome } from "../../../../src/engine/interface/types.ts";
import type { AnswerContext } from "../../../../src/servers/openai/pipeline/context.ts";
import type { Form } from "../../../../src/servers/openai/pipeline/form.ts";
import { StreamedAnswer } from "../../../../src/servers/openai/pipeline/stream.ts";
import { Logprobs, seededLogprobs } from "../../../../src/servers/openai/request/logprobs.ts";
import type { OutputOptions } from "../../../../src/servers/openai/request/output-options.ts";
import { ChatForm, CompletionForm } from "../../../../src/servers/vllm/openai/form.ts";
import { StreamedLogprobs } from "../../../../src/servers/vllm/responses/logprobs.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { contextOf, ListSink, PLAIN_OUTPUT } from "./streamed.ts";

const encoder = new TextEncoder();
/** A token per byte. */
const vocabulary = vocabularyOf(
  Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  new Set([0]),
  0,
);

const output: OutputOptions = { ...PLAIN_OUTPUT, echo: true, logprobs: 2, promptLogprobs: 2 };
const ids = Array.from({ length: 3000 }, (_, at) => 97 + (at % 26));

interface OpenStream {
  readonly answer: StreamedAnswer;
  readonly sink: ListSink;
  readonly turns: (() => void)[];
  readonly outcomes: Outcome[];
}

/** Starts a stream. `hasTurns`: work continues in `turns`, which the test runs. Otherwise, everything is done at once. */
function streamed(
  form: Form,
  given: Partial<AnswerContext["output"]>,
  prompts: AnswerContext["prompts"],
  hasTurns = true,
): OpenStream {
  const outcomes: Outcome[] = [];
  const turns: (() => void)[] = [];
  const context = { output: { ...output, ...given }, prompts, form };
  const after = (_: number, act: () => void) => {
    turns.push(act);
    return () => {};
  };
  const answer = new StreamedAnswer(contextOf(vocabulary, outcomes, context, hasTurns ? after : undefined));
  const sink = new ListSink();
  answer.sink = sink;
  answer.accepted();
  return { answer, sink, turns, outcomes };
}

function give({ answer }: OpenStream, said: Uint8Array, finish: Finish | null, index: number): void {
  answer.choices[index]!.onTokens(Int32Array.from(said), 0, said.length, finish, -1);
}

test("a long event is written in parts, one per turn, as the client reads, with no other event inside", () => {
  const prompts = [0, 1].map((seed) => ({ tokens: ids.length, ids: Uint32Array.from(ids), echo: "echo", seed }));
  const stream = streamed(new CompletionForm({ requestId: null }), {}, prompts);
  const { answer, sink, turns, outcomes } = stream;
  give(stream, encoder.encode("a"), null, 0);
  give(stream, encoder.encode("b"), Finish.Length, 1);
  give(stream, encoder.encode("c"), Finish.Length, 0);
  let most = 0;
  for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) {
    const before = sink.events.length;
    // Every fifth time, the client is not ready.
    sink.full = before % 5 === 0;
    turn();
    if (sink.full) {
      expect(sink.events.length).toBe(before);
      sink.full = false;
      answer.onDrain();
    }
    most = Math.max(most, sink.events.length - before);
  }
  // One part, and at the end of an event also the next event of another choice.
  expect(most).toBeLessThanOrEqual(3);
  expect(sink.events.length).toBeGreaterThan(2 * (ids.length / 512) * 3);
  expect([sink.ended, outcomes]).toEqual([true, ["length"]]);
  const events = sink.events
    .join("")
    .split("\n\n")
    .slice(0, -2)
    .map((event) => JSON.parse(event.slice(6)));
  expect(events.map(({ choices: [{ index, text }] }) => [index, text])).toEqual([
    [0, "echoa"],
    [0, "c"],
    [1, "echob"],
  ]);
  const shown = events.map(({ choices: [{ logprobs }] }) => logprobs.tokens.length);
  expect(shown).toEqual([ids.length + 1, 1, ids.length + 1]);
});

test("a client that becomes ready while a turn is already scheduled adds no second turn and no second end", () => {
  const prompts = [{ tokens: ids.length, ids: Uint32Array.from(ids), echo: "echo", seed: 7 }];
  const stream = streamed(new CompletionForm({ requestId: null }), {}, prompts);
  give(stream, encoder.encode("a"), Finish.Length, 0);
  while (stream.turns.length > 0) {
    stream.answer.onDrain();
    expect(stream.turns.length).toBe(1);
    stream.turns.shift()!();
  }
  expect([stream.sink.ended, stream.outcomes]).toEqual([true, ["length"]]);
  expect(stream.sink.events.filter((event) => event.startsWith("data: [DONE]")).length).toBe(1);
});

test("a stream whose time limit passes while its end is being written is broken off", () => {
  const end = Object.assign(new ChatForm({ requestId: null }), { longEnd: () => ["a", "b", "c"].values() });
  const prompts = [{ tokens: 2, ids: null, echo: null, seed: 7 }];
  const stream = streamed(end, { chat: true, logprobs: null, promptLogprobs: null }, prompts);
  give(stream, encoder.encode("x"), Finish.Length, 0);
  stream.turns.shift()!();
  expect(stream.sink.events.slice(-2)).toEqual(["a", "b"]);
  stream.answer.expire();
  for (const turn of stream.turns) turn();
  stream.answer.expire();
  expect([stream.sink.events.slice(-3), stream.sink.ended, stream.outcomes]).toEqual([
    ["a", "b", "reset"],
    false,
    ["error"],
  ]);
});

const FORMS = {
  chat: () => new ChatForm({ requestId: null }),
  completion: () => new CompletionForm({ requestId: null }),
};

test("with many choices and long outputs the bytes equal those written in one go, whenever the client reads", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...(Object.keys(FORMS) as (keyof typeof FORMS)[])),
      fc.array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 700 }), fc.nat(1)), { minLength: 1, maxLength: 6 }),
      fc.array(fc.constantFrom("turn", "drain", "full"), { maxLength: 60 }),
      fc.constantFrom(1, 300),
      fc.constantFrom(2, 150),
      (kind, said, acts, streamInterval, n) => {
        const options = { chat: kind === "chat", n, echo: false, promptLogprobs: null, streamInterval };
        const prompts = [{ tokens: 2, ids: null, echo: null, seed: 7 }];
        const atOnce = Object.assign(FORMS[kind](), { longPiece: () => null });
        const expected = streamed(atOnce, options, prompts, false);
        const stream = streamed(FORMS[kind](), options, prompts);
        const both = (act: (either: OpenStream) => void) => [expected, stream].forEach(act);
        const settle = () => {
          stream.sink.full = false;
          stream.answer.onDrain();
          for (let turn = stream.turns.shift(); turn !== undefined; turn = stream.turns.shift()) turn();
        };
        const take = () => {
          for (const act of acts) {
            if (act === "turn") stream.turns.shift()?.();
            else if (act === "full") stream.sink.full = true;
            else if (act === "drain") {
              stream.sink.full = false;
              stream.answer.onDrain();
            }
          }
        };
        for (const [tokens, index] of said) {
          both((either) => give(either, tokens, null, index));
          take();
          settle();
          expect(stream.sink.events.join("")).toBe(expected.sink.events.join(""));
        }
        for (let index = 0; index < n; index++) {
          both((either) => give(either, index === 0 ? said[0]![0] : new Uint8Array(), Finish.Length, index));
          if (index === 0) take();
          if (index % 50 === 0) settle();
        }
        settle();
        expect(stream.sink.events.join("")).toBe(expected.sink.events.join(""));
        expect([stream.sink.ended, stream.outcomes]).toEqual([true, ["length"]]);
      },
    ),
  );
});

test("the end of a stream repeats the same log probabilities whether they were kept or are generated again", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.uint8Array({ maxLength: 12 }), fc.integer({ min: -1, max: 1 })), { maxLength: 12 }),
      fc.constantFrom(0, 3000),
      (pieces, keptMost) => {
        const anew = () => new Logprobs(seededLogprobs(vocabulary.size), 7, vocabulary, 2, false);
        const lists = [undefined, keptMost].map((most) => {
          const logprobs = new StreamedLogprobs(anew, most);
          let from = 0;
          const shown: string[] = [];
          for (const [bytes, item] of pieces) {
            const ids = [...bytes];
            if (item < 0) logprobs.passOver(ids, from);
            else shown.push([...logprobs.show(ids, from, item)()].join(""));
            from += ids.length;
          }
          const found = [...shown, ...[0, 1].map((item) => [...logprobs.listOf(item)].join(""))];
          logprobs.drop();
          return found;
        });
        expect(lists[1]).toEqual(lists[0]);
        const tokens = lists[0]!.slice(-2).map((list) => JSON.parse(list).length);
        const told = [0, 1].map((of) => pieces.reduce((sum, [ids, item]) => sum + (item === of ? ids.length : 0), 0));
        expect(tokens).toEqual(told);
      },
    ),
  );
});

test("many ids of a prompt are written in parts", () => {
  const many = Uint32Array.from({ length: 50_000 }, (_, at) => (at * 7919) % 128_000);
  const prompts = [{ tokens: many.length, ids: many, echo: null, seed: 7 }];
  const shown = { echo: false, logprobs: null, promptLogprobs: null, returnTokenIds: true };
  const stream = streamed(new CompletionForm({ requestId: null }), shown, prompts);
  give(stream, encoder.encode("a"), Finish.Length, 0);
  let most = 0;
  for (let turn = stream.turns.shift(); turn !== undefined; turn = stream.turns.shift()) {
    const before = stream.sink.events.length;
    turn();
    most = Math.max(most, stream.sink.events.length - before);
  }
  expect(most).toBeLessThanOrEqual(3);
  expect(stream.sink.events.length).toBeGreaterThan(many.length / 4096);
  const [event] = stream.sink.events.join("").split("\n\n");
  expect(JSON.parse(event!.slice(6)).choices[0].prompt_token_ids).toEqual([...many]);
});
