/** Parts of streamed answers for tests: a sink that keeps events in a list, and the context of an answer. */
import { LiveCell } from "../../../../src/base/live-value.ts";
import { idsOf } from "../../../../src/base/random.ts";
import type { Outcome } from "../../../../src/engine/interface/types.ts";
import type { AnswerContext } from "../../../../src/servers/openai/pipeline/context.ts";
import { seededLogprobs } from "../../../../src/servers/openai/request/logprobs.ts";
import type { OutputOptions } from "../../../../src/servers/openai/request/output-options.ts";
import type { EventSink } from "../../../../src/wire/http/sink.ts";

export class ListSink implements EventSink {
  full = false;
  ended = false;
  /** All events in order. A reset is the event "reset". */
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
  reset(): void {
    this.events.push("reset");
  }

  /** Returns the text of each chunk except the last event. */
  get texts(): string[] {
    return this.events.slice(0, -1).map((event) => JSON.parse(event.slice(6)).choices[0].text);
  }
}

/** Options of a completion with one choice and no extras. */
export const PLAIN_OUTPUT: OutputOptions = {
  chat: false,
  n: 1,
  includeUsage: false,
  continuousUsage: false,
  streamInterval: 1,
  onlyEcho: false,
  echo: false,
  role: "",
  chatEcho: false,
  parser: null,
  namedTool: false,
  lastMessage: "",
  logprobs: null,
  logprobIds: null,
  promptLogprobs: null,
  returnTokenIds: false,
  weightVersions: false,
  beam: false,
  returnTokensAsTokenIds: false,
  text: { skipSpecialTokens: true, includeStopStrInOutput: false, stop: [], minTokens: 0 },
};

/** Returns a context whose clock stands at 0. `outcomes` receives the outcome of the request. */
export function contextOf(
  vocabulary: AnswerContext["server"]["vocabulary"],
  outcomes: Outcome[],
  given: Pick<AnswerContext, "output" | "prompts" | "form">,
  after?: AnswerContext["server"]["backend"]["after"],
): AnswerContext {
  return {
    server: {
      vocabulary,
      logprobs: seededLogprobs(vocabulary.size),
      fingerprint: null,
      answers: { streamInterval: 1, enablePromptTokensDetails: false, enableForceIncludeUsage: false },
      alive: new LiveCell(true),
      backend: { nowUs: () => 0, consumed() {}, ...(after === undefined ? {} : { after }) },
      reasoning: null,
      tools: null,
      timedOut: { status: 504, body: "{}" },
      cacheBlockTokens: 16,
    },
    ...given,
    id: "cmpl-1",
    newId: idsOf(null),
    created: 1,
    model: "m",
    promptText: null,
    ticket: { settle: (outcome) => outcomes.push(outcome) },
    batch: false,
    maxTokens: 100,
    logprobs: null,
    queuedUs: 0,
    truthUs: null,
  };
}
