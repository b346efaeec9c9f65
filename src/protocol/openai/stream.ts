/**
 * Which frames does a stream send, and when? vLLM 0.33, `chat_completion/serving.py` and `completion/serving.py`, with
 * the merging of `v1/engine/output_processor.py`: while the client is slow, tokens wait as ids and leave as one chunk.
 */
import { Finish, type Receiver, type Submission } from "../../engine/types.ts";
import type { AnswerParser } from "../answer-parser.ts";
import { chatStreamError, completionStreamError } from "../errors.ts";
import type { ErrorAnswer } from "../request.ts";
import type { EventSink, SinkEvents } from "../sink.ts";
import {
  type Asked,
  answerParser,
  cacheUse,
  engineError,
  finishName,
  logprobsOf,
  outcomeOf,
  stopReason,
  timesOf,
  weightVersions,
} from "./answer.ts";
import { AnswerText } from "./answer-text.ts";
import { ChatChunks, type Chunks, CompletionChunks, DONE, type Extras } from "./chunks.ts";
import { ID_BYTES } from "./held-ids.ts";
import type { Logprobs } from "./logprobs.ts";
import { hidesTokens } from "./output-options.ts";
import { logAborted } from "./request-log.ts";
import type { OutputTimes } from "./request-metrics.ts";
import { summary, type TokenTimes, truthComment } from "./truth-summary.ts";

const encoder = new TextEncoder();
const NOTHING = new Uint8Array();
const NO_DELTA = { calls: [] };
const KEEP_ALIVE = ": keep-alive\n\n";
/** In the time after which a silent stream gets a comment. */
const LOOKS = 20;

/** One stream: its choices write through it. Give it the sink, then a submission to each choice. */
export class StreamedAnswer implements SinkEvents {
  readonly asked: Asked;
  readonly choices: readonly StreamedChoice[];
  sink!: EventSink;
  #chunks: Chunks | null = null;
  #running: number;

  constructor(asked: Asked) {
    this.asked = asked;
    this.#running = asked.prompts.length * asked.wishes.n;
    this.choices = Array.from({ length: this.#running }, (_, index) => new StreamedChoice(this, index));
    if (asked.server.keepAlive) this.#watchSilence(asked.server.keepAlive);
  }

  /** The frames' maker. The first call, with the first token of any choice, sends chat's role chunks. */
  begin(): Chunks {
    this.#chunks ??= this.#open();
    return this.#chunks;
  }

  /** A choice has sent its last chunk. */
  choiceDone(last: StreamedChoice): void {
    if (--this.#running > 0) return;
    if (this.asked.wishes.includeUsage) last.write(this.#usageChunk());
    const { truthUs } = this.asked;
    const truth = truthUs ? summary(this.choices, truthUs) : null;
    last.write(truth === null ? DONE : DONE + truthComment(truth));
    this.asked.ticket.settle(outcomeOf(this.choices.map(({ finish }) => finish!)));
    this.sink.end();
  }

  /** One choice failed, and so the stream; the other choices are taken back. */
  fail(failed: StreamedChoice, answer: ErrorAnswer): void {
    this.cancel();
    const frame = this.asked.wishes.chat ? chatStreamError : completionStreamError;
    failed.write(frame(answer));
    failed.write(DONE);
    this.asked.ticket.settle("error");
    this.sink.end();
  }

  /** Its time is over: the stream ends with an error, or is broken off where nobody would read that. */
  expire(): void {
    const { sink, choices, asked } = this;
    if (!sink.full) {
      this.fail(choices.find(({ done }) => !done) ?? choices[0]!, asked.server.timedOut);
      return;
    }
    this.cancel();
    asked.ticket.settle("error");
    sink.reset();
  }

  /** Takes back what still runs. */
  cancel(): void {
    for (const choice of this.choices) choice.cancel();
  }

  onDrain(): void {
    for (const choice of this.choices) if (!this.sink.full) choice.send();
  }

  onGone(): void {
    const { n } = this.asked.wishes;
    logAborted(this.asked, (i) => this.choices.slice(i * n, (i + 1) * n).some(({ done }) => !done));
    this.cancel();
    // What the engine had ended before counts as it did there.
    this.asked.ticket.settle(outcomeOf(this.choices.map(({ finish }) => finish!)));
  }

  /** Looks now and then, so that a token costs nothing; a comment comes up to a look later than it might. */
  #watchSilence({ us, after }: NonNullable<Asked["server"]["keepAlive"]>): void {
    let bytes = -1;
    let silent = 0;
    const look = () => {
      if (this.choices.every(({ done }) => done)) return;
      const sent = this.choices.reduce((sum, choice) => sum + choice.bytes, 0);
      silent = sent === bytes ? silent + 1 : 0;
      bytes = sent;
      if (silent >= LOOKS) {
        silent = 0;
        if (!this.sink.full) this.sink.write(KEEP_ALIVE);
      }
      after(us / LOOKS, look);
    };
    look();
  }

  #open(): Chunks {
    const { id, created, model, server, wishes, prompts, promptText } = this.asked;
    const identity = { id, created, model, fingerprint: server.fingerprint, includeUsage: wishes.includeUsage };
    if (!wishes.chat) return new CompletionChunks(identity);
    const chunks = new ChatChunks(identity);
    const usage = wishes.continuousUsage ? chunks.usage(prompts[0]!.tokens, 0, this.#reasoningTokens()) : "";
    const ids = wishes.returnTokenIds ? JSON.stringify(prompts[0]!.ids) : "null";
    const text = promptText === null ? "null" : JSON.stringify(promptText);
    for (const choice of this.choices) choice.write(chunks.role(choice.index, wishes.role, usage, ids, text));
    const echo = wishes.lastMessage;
    if (echo !== "") for (const choice of this.choices) choice.write(chunks.echo(choice.index, echo, usage));
    return chunks;
  }

  #usageChunk(): string {
    const { wishes, server, prompts } = this.asked;
    const promptTokens = prompts.reduce((sum, { tokens }) => sum + tokens, 0);
    const completionTokens = this.choices.reduce((sum, { tokens }) => sum + tokens, 0);
    let details = "";
    if (server.promptTokensDetails) {
      const { cached, made } = cacheUse(this.asked, this.choices[0]!.submission);
      details = `{"cached_tokens":${cached}${wishes.chat ? `,"created_cache_tokens":${made}` : ""}}`;
    }
    const first = this.choices[0]!;
    const times = first.times?.text(this.asked.queuedUs, completionTokens, first.submission, false) ?? "";
    return this.begin().usageChunk(promptTokens, completionTokens, this.#reasoningTokens(), details, times);
  }

  /** Of all choices; null without a reasoning parser. */
  #reasoningTokens(): number | null {
    if (!this.asked.wishes.parser?.reasoning) return null;
    return this.choices.reduce((sum, { reasoningTokens }) => sum + (reasoningTokens ?? 0), 0);
  }
}

/** One choice of a stream. */
export class StreamedChoice implements Receiver {
  readonly streams = true;
  readonly index: number;
  submission: Submission | null = null;
  finish: Finish | null = null;
  /** What its end is called, where that is none of the engine's. */
  named: string | null = null;
  /** Of the events that were written for it; the last choice also counts the stream's end. */
  bytes = 0;
  readonly #answer: StreamedAnswer;
  readonly #text: AnswerText;
  readonly #logprobs: Logprobs | null;
  readonly #parser: AnswerParser | null;
  readonly times: OutputTimes | null;
  /** Before and after the text of a chunk that carries nothing else; null until there is one, or when none is so plain. */
  #prefix: Uint8Array | null = null;
  #suffix: Uint8Array = NOTHING;
  #frameBytes = 0;
  #stopReason = "null";
  /** A tool call was shown. */
  #called = false;
  /** Tokens in chunks so far. */
  #tokensSent = 0;
  #done = false;
  /** Of ids that wait for a client that does not keep up, as it was told. */
  #bytesHeld = 0;
  /** Where its truth is told. */
  truth: TokenTimes | null = null;

  constructor(answer: StreamedAnswer, index: number) {
    const { wishes, server } = answer.asked;
    this.index = index;
    this.#answer = answer;
    this.#text = new AnswerText(server.vocabulary, wishes.text);
    this.#logprobs = hidesTokens(wishes) ? null : logprobsOf(answer.asked, index);
    this.#parser = answerParser(answer.asked, index);
    this.times = timesOf(answer.asked);
  }

  /** Its last chunk was sent, or it was taken back. */
  get done(): boolean {
    return this.#done;
  }

  get tokens(): number {
    return this.#text.tokens;
  }

  get reasoningTokens(): number | null {
    return this.#parser?.reasoningTokens ?? null;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const text = this.#text;
    if (this.times !== null) this.times.came(this.#answer.asked.server.clockUs!());
    // The hot path: one plain token for a client that keeps up.
    if (this.#prefix !== null && count === 1 && finish === null && !this.#answer.sink.full && text.idle) {
      const piece = text.plain(ids[at]!);
      if (piece !== undefined) {
        text.tokens++;
        this.bytes += this.#frameBytes + piece.length;
        this.#answer.sink.writeParts(this.#prefix, piece, this.#suffix);
        return;
      }
    }
    if (this.finish !== null) return;
    const stop = text.accept(ids, at, count, finish);
    if (stop !== null && finish === null) this.submission?.finish(Finish.Stop, text.tokens);
    const ended = stop !== null ? Finish.Stop : finish;
    if (ended !== null) {
      this.finish = ended;
      this.#stopReason = stopReason(ended, stop, stopTokenId);
      if (ended === Finish.Error) {
        this.#done = true;
        // An output says so, and the first of all brings the roles; a dead engine says nothing more.
        if (this.#answer.asked.server.dead?.() !== true) this.#answer.begin();
        this.#answer.fail(this, engineError(this.#answer.asked.server));
        return;
      }
    } else if (count === 0) {
      return;
    }
    this.send();
  }

  /** Sends what waits, unless the client or the stream interval wants it later. */
  send(): void {
    if (this.#done || (this.finish === null && this.#text.waiting === 0)) return;
    const chunks = this.#answer.begin();
    if (this.#answer.sink.full) {
      this.#hold(this.#text.waiting * ID_BYTES);
      return;
    }
    const waiting = this.#text.tokens - this.#tokensSent;
    if (this.finish === null && this.#tokensSent > 0 && waiting < this.#answer.asked.wishes.streamInterval) return;
    // An answer that ended before its first token has no chunk, unless its end has a name of its own.
    const chunk = this.#text.tokens > 0 || this.named !== null ? this.#chunk(chunks) : null;
    if (chunk !== null) this.write(chunk);
    if (this.#bytesHeld > 0) this.#hold(0);
    this.#tokensSent = this.#text.tokens;
    if (this.finish !== null) {
      this.#done = true;
      this.#answer.choiceDone(this);
    } else if (this.#prefix === null && this.#isPlain()) {
      this.#prefix = encoder.encode(chunks.prefix(this.index));
      this.#suffix = chunks.suffix;
      this.#frameBytes = this.#prefix.length + this.#suffix.length;
    }
  }

  write(event: string): void {
    this.bytes += Buffer.byteLength(event);
    this.#answer.sink.write(event);
  }

  /** The client left, or another choice failed. */
  cancel(): void {
    if (this.finish === null) this.submission?.cancel();
    if (this.#bytesHeld > 0) this.#hold(0);
    this.#done = true;
    this.#prefix = null;
    this.finish ??= Finish.Abort;
  }

  #hold(bytes: number): void {
    this.#answer.asked.server.waiting?.held(bytes - this.#bytesHeld);
    this.#bytesHeld = bytes;
  }

  /** null: its tokens say nothing yet. */
  #chunk(chunks: Chunks): string | null {
    const { wishes, prompts } = this.#answer.asked;
    const prompt = prompts[Math.floor(this.index / wishes.n)]!;
    const first = this.#tokensSent === 0;
    const echoes = first && wishes.echo;
    const ids = wishes.onlyEcho ? [] : this.#text.ids;
    let text = this.#text.take(this.finish);
    if (wishes.onlyEcho) text = "";
    if (echoes && !wishes.returnTokenIds) text = (prompt.echo ?? "") + text;
    const delta = this.#parser?.push(text, ids, this.finish !== null);
    if (delta?.calls.length) this.#called = true;
    const shown = wishes.returnTokenIds && !hidesTokens(wishes);
    if (delta === null && this.finish === null && this.#logprobs === null && !shown) return null;
    const extras: Extras = {
      logprobs: this.#logprobsOf(ids, echoes ? (prompt.ids ?? []) : []),
      tokenIds: shown ? JSON.stringify(ids) : "null",
      promptTokenIds: first && (wishes.echo || wishes.returnTokenIds) ? JSON.stringify(prompt.ids) : "null",
      finishReason: this.finish === null ? null : (this.named ?? finishName(wishes, this.finish, this.#called)),
      stopReason: this.#stopReason,
      weightVersions: this.finish === null ? "null" : weightVersions(this.#answer.asked, this.#text.tokens),
      usage: wishes.continuousUsage ? chunks.usage(prompt.tokens, this.#text.tokens, this.reasoningTokens) : "",
    };
    if (delta !== undefined && chunks instanceof ChatChunks) return chunks.delta(this.index, delta ?? NO_DELTA, extras);
    return chunks.chunk(this.index, text, extras);
  }

  #logprobsOf(ids: readonly number[], prompt: readonly number[]): string {
    if (this.#logprobs === null) return "null";
    if (this.#answer.asked.wishes.chat) return this.#logprobs.chat(ids, this.#tokensSent);
    return this.#logprobs.completion(ids, this.#tokensSent, prompt);
  }

  #isPlain(): boolean {
    const { wishes } = this.#answer.asked;
    return (
      this.#logprobs === null &&
      this.#parser === null &&
      !wishes.returnTokenIds &&
      !wishes.continuousUsage &&
      wishes.streamInterval === 1 &&
      wishes.text.stop.length === 0
    );
  }
}
