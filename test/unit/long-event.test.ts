/** Does an event of megabytes leave part by part, and no other event stand in it? */
import { expect, test } from "bun:test";
import type { AnswerContext } from "../../src/answer/context.ts";
import { StreamedAnswer } from "../../src/answer/stream.ts";
import { vocabularyOf } from "../../src/content/vocabulary.ts";
import { CompletionForm } from "../../src/dialects/openai/form.ts";
import { Finish, type Outcome } from "../../src/engine/types.ts";
import { seededLogprobs } from "../../src/generation/logprobs.ts";
import { idsOf } from "../../src/host/random.ts";
import type { EventSink } from "../../src/http/sink.ts";

const encoder = new TextEncoder();
/** Each byte a token. */
const vocabulary = vocabularyOf(
  Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  new Set([0]),
  0,
);

class ListSink implements EventSink {
  full = false;
  ended = false;
  readonly events: string[] = [];

  write(event: string): boolean {
    this.events.push(event);
    return !this.full;
  }
  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    return this.write(Buffer.concat([before, piece, after]).toString());
  }
  end(): void {
    this.ended = true;
  }
  reset(): void {}
}

const output: AnswerContext["output"] = {
  chat: false,
  n: 1,
  includeUsage: false,
  continuousUsage: false,
  streamInterval: 1,
  onlyEcho: false,
  echo: true,
  role: "",
  chatEcho: false,
  parser: null,
  namedTool: false,
  lastMessage: "",
  logprobs: 2,
  logprobIds: null,
  promptLogprobs: 2,
  returnTokenIds: false,
  weightVersions: false,
  beam: false,
  returnTokensAsTokenIds: false,
  text: { skipSpecialTokens: true, includeStopStrInOutput: false, stop: [], minTokens: 0 },
};

test("a long event leaves part by part, each in a turn of its own, as it is taken; no other event stands in it", () => {
  const ids = Array.from({ length: 3000 }, (_, at) => 97 + (at % 26));
  const outcomes: Outcome[] = [];
  const turns: (() => void)[] = [];
  const prompts = [0, 1].map((seed) => ({ tokens: ids.length, ids, echo: "echo", seed }));
  const context: AnswerContext = {
    server: {
      vocabulary,
      logprobs: seededLogprobs(vocabulary.size),
      fingerprint: null,
      responseRole: "assistant",
      streamInterval: 1,
      forceIncludeUsage: false,
      promptTokensDetails: false,
      timedOut: { status: 504, body: "{}" },
      cacheBlockTokens: 16,
      turn: (act) => void turns.push(act),
    },
    output,
    prompts,
    id: "cmpl-1",
    newId: idsOf(null),
    created: 1,
    model: "m",
    promptText: null,
    ticket: { settle: (outcome) => outcomes.push(outcome) },
    batch: false,
    form: new CompletionForm({ requestId: null }),
    maxTokens: 100,
    logprobs: null,
    queuedUs: 0,
    truthUs: null,
  };
  const answer = new StreamedAnswer(context);
  const sink = new ListSink();
  answer.sink = sink;
  answer.accepted();
  const give = (text: string, finish: Finish | null, index: number) => {
    const said = Int32Array.from(encoder.encode(text));
    answer.choices[index]!.onTokens(said, 0, said.length, finish, -1);
  };
  give("a", null, 0);
  give("b", Finish.Length, 1);
  give("c", Finish.Length, 0);
  let most = 0;
  for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) {
    const before = sink.events.length;
    // Now and then the client takes nothing.
    sink.full = before % 5 === 0;
    turn();
    if (sink.full) {
      expect(sink.events.length).toBe(before);
      sink.full = false;
      answer.onDrain();
    }
    most = Math.max(most, sink.events.length - before);
  }
  // A part, and where an event ends the next one of another choice.
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
