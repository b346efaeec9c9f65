/**
 * What does the answer look like in one piece? All fields of vLLM 0.33's `ChatCompletionResponse` and
 * `CompletionResponse`, nulls included, in their order.
 */
import { Finish, type Outcome, type Receiver, type Submission } from "../../engine/types.ts";
import type { Form } from "../form.ts";
import type { Call, Message } from "../output.ts";
import type { ErrorAnswer } from "../request.ts";
import {
  type Asked,
  answerParser,
  cacheUse,
  endingOf,
  engineError,
  FINISH_NAMES,
  finishName,
  logprobsOf,
  outcomeOf,
  promptLogprobs,
  stopReason,
  timesOf,
  weightVersions,
} from "./answer.ts";
import { AnswerText } from "./answer-text.ts";
import { CACHE_THRESHOLD } from "./cache-threshold.ts";
import { completionDetails } from "./chunks.ts";
import { REMOTE_DECODE, REMOTE_PARAMS } from "./kv-transfer.ts";
import { hidesTokens, type OutputOptions } from "./output-options.ts";
import { logAborted } from "./request-log.ts";
import type { OutputTimes } from "./request-metrics.ts";
import type { TokenTimes } from "./truth-summary.ts";

/** Collects the choices of a request; `answer` settles when all have ended, or the client left. */
export class CollectedAnswer {
  readonly asked: Asked;
  readonly choices: readonly CollectedChoice[];
  /** The body, or the error; null when the client left. */
  readonly answer: Promise<string | ErrorAnswer | null>;
  readonly #resolve: (answer: string | ErrorAnswer | null) => void;
  #running: number;
  #settled = false;

  constructor(asked: Asked) {
    this.asked = asked;
    this.#running = asked.prompts.length * asked.wishes.n;
    this.choices = Array.from({ length: this.#running }, (_, index) => new CollectedChoice(this, index));
    const { promise, resolve } = Promise.withResolvers<string | ErrorAnswer | null>();
    this.answer = promise;
    this.#resolve = resolve;
  }

  choiceDone(choice: CollectedChoice, finish: Finish): void {
    this.#running--;
    if (this.#settled) return;
    if (finish === Finish.Error) {
      this.#settle(engineError(this.asked.server), "error");
    } else if (this.#running === 0) {
      const { form } = this.asked;
      const body = form === null ? bodyOf(this) : choice.inForm(form);
      choice.bytes = Buffer.byteLength(body);
      this.#settle(body, outcomeOf(this.choices.map(({ finish }) => finish!)));
    }
  }

  /** The client left. */
  gone(): void {
    if (this.#settled) return;
    const { n } = this.asked.wishes;
    this.asked.form?.dropped();
    logAborted(this.asked, (i) => this.choices.slice(i * n, (i + 1) * n).some(({ finish }) => finish === null));
    this.#settle(null, "abort");
  }

  /** Its time is over. */
  expire(): void {
    if (!this.#settled) this.#settle(this.asked.server.timedOut, "error");
  }

  /** Takes back what still runs. */
  cancel(): void {
    for (const choice of this.choices) choice.cancel();
  }

  #settle(answer: string | ErrorAnswer | null, outcome: Outcome): void {
    this.#settled = true;
    this.cancel();
    this.asked.ticket.settle(outcome);
    this.#resolve(answer);
  }
}

export class CollectedChoice implements Receiver {
  readonly index: number;
  submission: Submission | null = null;
  finish: Finish | null = null;
  /** What its end is called, where that is none of the engine's. */
  named: string | null = null;
  /** Once its message was made; null without a reasoning parser. */
  reasoningTokens: number | null = null;
  /** Of the whole body, with the choice that ended last. */
  bytes = 0;
  /** JSON. */
  stopReason = "null";
  /** Where its truth is told. */
  truth: TokenTimes | null = null;
  readonly times: OutputTimes | null;
  readonly #answer: CollectedAnswer;
  readonly #text: AnswerText;

  constructor(answer: CollectedAnswer, index: number) {
    this.#answer = answer;
    this.index = index;
    this.times = timesOf(answer.asked);
    this.#text = new AnswerText(answer.asked.server.vocabulary, answer.asked.wishes.text);
  }

  get tokens(): number {
    return this.#text.tokens;
  }

  get ids(): readonly number[] {
    return this.#text.ids;
  }

  /** The body in another dialect's form; once, at the end. */
  inForm(form: Form): string {
    const { asked } = this.#answer;
    const ids = this.ids;
    const message = this.message();
    const stop: unknown = JSON.parse(this.stopReason);
    const { submission, times, tokens, reasoningTokens } = this;
    const ended = {
      finish: this.finish!,
      stop: stop as string | number | null,
      tokens,
      reasoningTokens,
      submission,
      times,
    };
    const logprobs = hidesTokens(asked.wishes) ? null : (logprobsOf(asked, 0)?.chat(ids, 0) ?? null);
    return form.whole(message, endingOf(asked, ended), logprobs);
  }

  /** What the whole text is; once, at the end. */
  message(): Message {
    const parser = answerParser(this.#answer.asked, this.index);
    if (parser === null) return { content: this.takeText(), reasoning: null, calls: NO_CALLS };
    const ids = this.ids;
    const message = parser.extract(this.takeText(), ids);
    this.reasoningTokens = parser.reasoningTokens;
    return message;
  }

  /** The whole text; once, at the end, after `ids` was read. */
  takeText(): string {
    return this.#text.take(this.finish);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.finish !== null) return;
    if (this.times !== null) this.times.came(this.#answer.asked.server.clockUs!());
    const stop = this.#text.accept(ids, at, count, finish);
    const ended = stop !== null ? Finish.Stop : finish;
    if (ended === null) return;
    this.finish = ended;
    const { wishes, server } = this.#answer.asked;
    // Beams name the end of sequence like any stop id.
    const named = wishes.beam && ended === Finish.Stop && stopTokenId < 0 ? server.vocabulary.eosId : stopTokenId;
    this.stopReason = stopReason(ended, stop, named);
    if (finish === null) this.submission?.finish(ended, this.tokens);
    this.#answer.choiceDone(this, ended);
  }

  cancel(): void {
    if (this.finish !== null) return;
    this.finish = Finish.Abort;
    this.submission?.cancel();
  }
}

/** What most answers have between their numbers, in one piece: putting a text together costs by the piece. */
const NO_USAGE_DETAILS = ',"prompt_tokens_details":null,"completion_tokens_details":null}';
const NO_PROMPT_FIELDS = ',"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null';
const NO_MORE_MESSAGE = ',"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}';
const NO_TRANSFER = ',"kv_transfer_params":null,"ec_transfer_params":null,"metrics":';
const TRANSFER = NO_TRANSFER.replace("null", REMOTE_PARAMS);

function bodyOf({ asked, choices }: CollectedAnswer): string {
  const { id, created, model, wishes, server, prompts } = asked;
  const { chat } = wishes;
  let list = "";
  let promptTokens = 0;
  let completionTokens = 0;
  for (const prompt of prompts) promptTokens += prompt.tokens;
  for (const choice of choices) {
    const one = chat ? chatChoice(asked, choice) : completionChoice(asked, choice);
    list = list === "" ? one : `${list},${one}`;
    completionTokens += choice.tokens;
  }
  const fingerprint = server.fingerprint === null ? "null" : JSON.stringify(server.fingerprint);
  const thoughts = wishes.parser?.reasoning ? choices.reduce((sum, one) => sum + (one.reasoningTokens ?? 0), 0) : null;
  const details =
    thoughts === null && !server.promptTokensDetails ? NO_USAGE_DETAILS : usageDetails(asked, choices, thoughts);
  const { times: own, submission } = choices[0]!;
  const times = own?.text(asked.queuedUs, completionTokens, submission, true) ?? "null";
  return (
    `{"id":${JSON.stringify(id)},"object":"${chat ? "chat.completion" : "text_completion"}","created":${created},"model":${JSON.stringify(model)},"choices":[${list}]` +
    `,"service_tier":null,"system_fingerprint":${fingerprint},"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens + completionTokens},"completion_tokens":${completionTokens}${details}` +
    `${chat ? promptFields(asked) : ""}${asked.remoteDecode ? TRANSFER : NO_TRANSFER}${times}}`
  );
}

function usageDetails(asked: Asked, choices: readonly CollectedChoice[], thoughts: number | null): string {
  const { server, wishes } = asked;
  let details = "null";
  if (server.promptTokensDetails) {
    const { cached, made } = cacheUse(asked, choices.at(-wishes.n)!.submission);
    details = `{"cached_tokens":${cached},"created_cache_tokens":${wishes.chat ? made : null},"multimodal_tokens":null}`;
  }
  return `,"prompt_tokens_details":${details},"completion_tokens_details":${completionDetails(thoughts)}}`;
}

function promptFields(asked: Asked): string {
  const { promptText, prompts, wishes } = asked;
  if (promptText === null && wishes.promptLogprobs === null && !wishes.returnTokenIds) return NO_PROMPT_FIELDS;
  const prompt = prompts[0]!;
  const ids = wishes.returnTokenIds && !asked.batch ? JSON.stringify(prompt.ids) : "null";
  const text = promptText === null ? "null" : JSON.stringify(promptText);
  return `,"prompt_logprobs":${promptLogprobs(asked, prompt)},"prompt_token_ids":${ids},"prompt_text":${text}`;
}

/** What both kinds of choice end with, from `logprobs` on. */
function ending(
  asked: Asked,
  choice: CollectedChoice,
  logprobs: string,
  tokenIds: string,
  prompt: string,
  called = false,
): string {
  const reason =
    choice.named ?? (asked.remoteDecode ? REMOTE_DECODE : finishName(asked.wishes, choice.finish!, called));
  const { stopReason } = choice;
  const plain = logprobs === "null" && tokenIds === "null" && prompt === "" && stopReason === "null";
  if (plain && !asked.wishes.weightVersions) return PLAIN_ENDINGS.get(reason)!;
  return `,"logprobs":${logprobs},"finish_reason":"${reason}","stop_reason":${stopReason},"token_ids":${tokenIds}${prompt},"routed_experts":null,"weight_versions":${weightVersions(asked, choice.tokens)}}`;
}

const PLAIN_ENDINGS: ReadonlyMap<string, string> = new Map(
  [...FINISH_NAMES, "tool_calls", CACHE_THRESHOLD, REMOTE_DECODE].map((reason) => [
    reason,
    `,"logprobs":null,"finish_reason":"${reason}","stop_reason":null,"token_ids":null,"routed_experts":null,"weight_versions":null}`,
  ]),
);

function chatChoice(asked: Asked, choice: CollectedChoice): string {
  const { role, lastMessage, returnTokenIds, chatEcho: echo } = asked.wishes;
  const hidden = hidesTokens(asked.wishes);
  const ids = !hidden && showsIds(asked.wishes) ? choice.ids : NO_IDS;
  const { content, reasoning, calls } = choice.message();
  const logprobs = (hidden ? null : logprobsOf(asked, choice.index)?.chat(ids, 0)) ?? "null";
  const said = content === null && !echo ? "null" : JSON.stringify(lastMessage + (content ?? ""));
  const more = calls.length === 0 && reasoning === null ? NO_MORE_MESSAGE : moreOf(calls, reasoning);
  const tokenIds = returnTokenIds && !hidden ? JSON.stringify(ids) : "null";
  const end = ending(asked, choice, logprobs, tokenIds, "", calls.length > 0);
  return `{"index":${choice.index},"message":{"role":${JSON.stringify(role)},"content":${said}${more}${end}`;
}

function moreOf(calls: readonly Call[], reasoning: string | null): string {
  const called = calls.length === 0 ? "" : `,"tool_calls":[${calls.map(callJson)}]`;
  return `,"refusal":null,"annotations":null,"audio":null,"function_call":null${called},"reasoning":${JSON.stringify(reasoning)}}`;
}

const NO_CALLS: readonly Call[] = [];
const NO_IDS: readonly number[] = [];
/** Most answers need no copy of them. */
const showsIds = ({ returnTokenIds, logprobs }: OutputOptions) => returnTokenIds || logprobs !== null;

function callJson({ id, name, arguments: given }: Call): string {
  return `{"id":${JSON.stringify(id)},"type":"function","function":{"name":${JSON.stringify(name)},"arguments":${JSON.stringify(given)}}}`;
}

function completionChoice(asked: Asked, choice: CollectedChoice): string {
  const { n, echo, onlyEcho, returnTokenIds } = asked.wishes;
  const prompt = asked.prompts[Math.floor(choice.index / n)]!;
  const ids = !onlyEcho && showsIds(asked.wishes) ? choice.ids : NO_IDS;
  let text = choice.takeText();
  if (onlyEcho) text = "";
  if (echo && !returnTokenIds) text = (prompt.echo ?? "") + text;
  const echoed = echo ? (prompt.ids ?? []) : [];
  const count = asked.wishes.promptLogprobs;
  const size = asked.server.vocabulary.size;
  const promptCount = count === null ? undefined : count === -1 ? size : count;
  const logprobs = logprobsOf(asked, choice.index)?.completion(ids, 0, echoed, promptCount) ?? "null";
  const tokenIds = returnTokenIds ? JSON.stringify(ids) : "null";
  const promptIds = returnTokenIds ? JSON.stringify(prompt.ids) : "null";
  const promptPart = `,"prompt_logprobs":${promptLogprobs(asked, prompt)},"prompt_token_ids":${promptIds}`;
  return `{"index":${choice.index},"text":${JSON.stringify(text)}${ending(asked, choice, logprobs, tokenIds, promptPart)}`;
}
