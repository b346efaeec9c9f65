/**
 * Finds the answer that somebody ordered for a request: in the header `X-Understudy` or the body's field
 * `understudy`, in a fixture (docs/how-to/fixtures.md), or in the file of `--script` (docs/how-to/scripts.md); the first of these counts.
 */

import { andThen } from "../../../base/maybe-promise.ts";
import type { Generation, Receiver } from "../../../engine/interface/types.ts";
import { countedParts } from "../../../text/answers/answer-parts.ts";
import type { FixtureAnswer } from "../../../text/canned/fixtures/fixture.ts";
import type { AnswerRules } from "../../../text/canned/fixtures/match.ts";
import { type Recording, saidIn } from "../../../text/canned/fixtures/recording.ts";
import {
  BrokenScript,
  NO_PLAYS,
  type Order,
  type Plays,
  plainScript,
  playedScript,
  type Script,
  SILENT,
  shapedScript,
  touchesEngine,
  unknownIn,
} from "../../../text/canned/script.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { mayRelease, ORDER_HEADER, orderInHeader } from "../front/order-header.ts";
import { badRequest, orderNotAllowed } from "../request/errors.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { ChatRequest, CompletionRequest, Repetition } from "../request/request.ts";
import { type RequestOrders, requestOrdersOf } from "../request/request-orders.ts";
import { thinkingOf, thoughtsBefore } from "../request/thinking.ts";
import { forced } from "../tool-calls/output.ts";
import { type ReasoningSetup, reasoningSetup } from "../tool-calls/reasoning.ts";
import { Failures } from "./failures.ts";
import { httpError, lastContent, questionOf } from "./fixtures.ts";
import { withCallsWritten } from "./ordered-calls.ts";
import { type Played, PlayedReceiver, rankedLogprobs, type Stage, scriptIds, Together } from "./play.ts";

type Asking = ChatRequest | CompletionRequest;

/** An order that can be played once its text is encoded. */
export interface Ordered {
  readonly order: Order;
  /** What must be encoded first; null: nothing. */
  readonly text: string | null;
}

/** Reports whether answers may be disturbed whose requests order nothing: by a rule of `--fault-plan`, or by chance. */
export const disturbsAny = ({ live, text }: Pick<OpenAiKernel, "live" | "text">) =>
  text.canned.faultRules !== undefined || (live.values.faults.get().faultRate ?? 0) > 0;

/** What the request, whose bytes are `body`, is to be answered with, and the plan of faults that disturbs it. */
export interface Ordering {
  /** null: nothing is ordered. */
  readonly ordered: Ordered | null;
  /** The request is answered with this. */
  readonly error?: ErrorAnswer;
  /** True if the answer is to be JSON, as the prompt asks for it; absent: the server's option decides. */
  readonly promptedJson?: boolean;
  /** Played back, beside the engine. */
  readonly recorded?: Recording;
  /** Not yet read; "": none. */
  readonly fault: string;
  /** The plan is the operator's, who may order anything. */
  readonly trusted: boolean;
}

const NOTHING: Ordering = { ordered: null, fault: "", trusted: true };
const ECHO: Order = { kind: "echo", text: "", script: null, releases: false };

export class Orders {
  readonly #kernel: OpenAiKernel;
  readonly #vocabulary: Vocabulary;
  readonly #reasoning: ReasoningSetup | null;
  readonly #plays: Plays;
  readonly #failures: Failures;
  /** What clients may order. */
  readonly #allowed: RequestOrders;
  readonly #stage: Stage;
  /** Something may have made the engine stand still. */
  readonly #mayRelease: boolean;
  #next = 0;
  /** Logs why a JSON Schema in a prompt gets no JSON. Later calls do nothing. */
  readonly schemaNotice: (why: string) => void;

  constructor(kernel: OpenAiKernel) {
    const { backend, config, live, text } = kernel;
    const { vocabulary } = text.model;
    this.#kernel = kernel;
    this.#vocabulary = vocabulary;
    const { reasoningParser: name } = config.text;
    this.#reasoning = name === undefined ? null : reasoningSetup(name, vocabulary);
    this.#plays = text.canned.plays ?? NO_PLAYS;
    this.#failures = new Failures(config, live.values.failures);
    this.#allowed = requestOrdersOf(config);
    this.#mayRelease = mayRelease(kernel);
    this.schemaNotice = firstOnly((why) =>
      kernel.log(`a JSON Schema in a prompt was answered with prose (later ones silently): ${why}`),
    );
    this.#stage = {
      standStill: (still) => backend.standStill?.(still),
      releaseIn: (seconds) => void backend.after?.(seconds * 1e6, () => backend.standStill?.(false)),
      die: () => backend.die?.(),
      later: (us, act) => void (backend.after?.(us, act) ?? act()),
      nowUs: () => backend.nowUs(),
    };
  }

  get #mayFail(): boolean {
    const { config, live } = this.#kernel;
    return config.faults.errorHeader === true || (live.values.failures.get().failureRate ?? 0) > 0;
  }

  /** `body`: the request's bytes. */
  of(http: HttpRequest, request: Asking, body: Body): Ordering | Promise<Ordering> {
    const failure = this.#mayFail ? this.#failures.of(http) : null;
    if (failure !== null) return { ...NOTHING, error: failure };
    const { rules } = this.#kernel.text;
    return rules === undefined ? this.#asking(http, request, body) : this.#ruled(rules, http, request, body);
  }

  #ruled(rules: AnswerRules, http: HttpRequest, request: Asking, body: Body): Ordering | Promise<Ordering> {
    const ruled = rules.answerTo(questionOf(http, request, body, this.#vocabulary));
    const given = (answer: FixtureAnswer | null) => {
      if (answer === null) return this.#asking(http, request, body);
      return this.#laid(answer, request) ?? { ...this.#asking(http, request, body), fault: answer.fault };
    };
    return andThen(ruled, given);
  }

  #asking(http: HttpRequest, request: Asking, body: Body): Ordering {
    const header = this.#allowed === "none" ? null : http.headers.get(ORDER_HEADER);
    if (header === null && (request.order === null || this.#allowed === "none"))
      return this.#unasked(http, request, body);
    try {
      const order = header === null ? orderIn(request) : orderInHeader(header);
      // At once, because the answer to this request needs the engine.
      if (order.releases && this.#mayRelease) this.#stage.standStill(false);
      const { fault } = order;
      const own = fault === undefined ? {} : { fault, trusted: this.#allowed === "all" };
      if (order.kind === "none") return { ...this.#unasked(http, request, body), ...own };
      if (order.script !== null) {
        this.#check(order.script);
        if (this.#allowed !== "all" && touchesEngine(order.script)) return { ...NOTHING, error: orderNotAllowed };
      }
      return { ...NOTHING, ordered: this.#ordered(order, request), ...own };
    } catch (error) {
      if (error instanceof BrokenScript)
        return { ...NOTHING, error: badRequest(`understudy: ${error.message}`, "understudy") };
      throw error;
    }
  }

  /** What the request orders to be called; null: it says nothing of it. */
  calls(http: HttpRequest, request: Asking): Exclude<Order["calls"], undefined> | null {
    return this.#asked(http, request)?.calls ?? null;
  }

  /** The request with the thinking that it orders. */
  onto<R extends Asking>(http: HttpRequest, request: R): R {
    const tokens = this.#asked(http, request)?.reasoningTokens;
    return tokens === undefined ? request : { ...request, reasoningTokens: tokens };
  }

  /** The order as it came; null: there is none. A broken one is found by `of`. */
  #asked(http: HttpRequest, request: Asking): Order | null {
    const header = this.#allowed === "none" ? null : http.headers.get(ORDER_HEADER);
    if (header === null && (request.order === null || this.#allowed === "none")) return null;
    try {
      return header === null ? orderIn(request) : orderInHeader(header);
    } catch {
      return null;
    }
  }

  /** The script of an order whose text has these ids; a completion's echo is each prompt itself. */
  script({ order, text }: Ordered, ids: Uint32Array | null, prompts: readonly Uint32Array[], request: Asking): Script {
    if (order.kind === "script" || order.kind === "play") return order.script!;
    const { n } = request;
    if (ids !== null && order.script?.parts !== undefined) return this.#inParts(ids, order.script, prompts.length * n);
    const said = ids === null ? null : this.#thoughtful(ids, prompts[0]!, request);
    const plain = text === null ? this.#repeated(prompts, n) : plainScript(said!, prompts.length * n);
    return order.script === null ? plain : shapedScript(plain, order.script);
  }

  #inParts(ids: Uint32Array, shape: Script, choices: number): Script {
    const vocabulary = this.#vocabulary;
    const parts = countedParts(shape.parts!, ids.length, (at) => vocabulary.bytesOf(ids[at]!).length);
    return { ...shapedScript(plainScript(ids, choices), shape), parts };
  }

  /** Behind its thinking, where the server's answers think: without an end of it a text would be taken for thinking. */
  #thoughtful(ids: Uint32Array, promptIds: Uint32Array, request: Asking): Uint32Array {
    const { config, text } = this.#kernel;
    const seed = request.seed ?? 0;
    const thinking = thinkingOf(request, this.#reasoning, promptIds, seed, config.openai.answers.meanReasoningTokens);
    if (thinking === null) return ids;
    const whole = thoughtsBefore(thinking, text.model.answers, seed, ids, this.#vocabulary.size);
    return whole.subarray(0, whole.length);
  }

  #repeated(prompts: readonly Uint32Array[], n: number): Script {
    const vocabulary = this.#vocabulary;
    const plain = plainScript([], 0);
    const sequences = prompts.flatMap((prompt) => {
      const said = Array.from(prompt).filter((id) => !vocabulary.isSpecial(id));
      return plainScript(said, n).sequences;
    });
    return { ...plain, sequences };
  }

  /** Before the first generation is handed to the engine; what gathers their outputs where they are to pile up. */
  begins({ holdAfter, releaseAfterS, diesAtStep, burst }: Script, choices: number): Together | null {
    if (holdAfter === 0) this.#stage.standStill(true);
    if (holdAfter === 0 && releaseAfterS !== null) this.#stage.releaseIn(releaseAfterS);
    if (diesAtStep === 0) this.#stage.die();
    return burst ? new Together(choices) : null;
  }

  /** The generation with its ids, and who listens to it. */
  play(
    script: Script,
    choice: Played,
    generation: Generation,
    repetition: Repetition | null,
    together: Together | null,
  ): { readonly generation: Generation; readonly receiver: Receiver } {
    const sequence = script.sequences[choice.index] ?? SILENT;
    const ids = scriptIds(sequence, generation, this.#vocabulary.eosId);
    return {
      // The real scheduler leaves `min_tokens` to the sampler: what a model says in spite of it ends the answer.
      generation: { ...generation, minTokens: 0, plannedTokens: null, script: ids },
      receiver: new PlayedReceiver(choice, sequence, {
        ...{ script, stage: this.#stage, repetition, together },
        arrivalUs: generation.arrivalUs,
      }),
    };
  }

  /** Log probabilities of a choice. */
  logprobs(script: Script): ((index: number) => LogprobSource) | undefined {
    if (!script.ranked) return undefined;
    const { size } = this.#vocabulary;
    return (index) => rankedLogprobs(size, script.sequences[index]?.minusInfinityAt ?? []);
  }

  #ordered(given: Order, request: Asking): Ordered {
    if (given.kind === "play") return this.#played(this.#named(given.text), given, request);
    const order = withCallsWritten(given, request, this.#kernel.config.text.toolCallParser);
    if (order.kind === "echo") return { order, text: request.kind === "chat" ? lastContent(request) : null };
    return { order, text: order.kind === "text" ? order.text : null };
  }

  /** A request that orders nothing itself. */
  #unasked(http: HttpRequest, request: Asking, body: Body): Ordering {
    const { fixtures } = this.#kernel.text.canned;
    const answer = fixtures?.answerTo(questionOf(http, request, body, this.#vocabulary)) ?? null;
    const laid = answer && this.#laid(answer, request);
    if (laid !== null) return laid;
    const { fault } = answer ?? NOTHING;
    const ordered = this.#queued(request) ?? (this.#echoes(http, request) ? this.#ordered(ECHO, request) : null);
    return ordered === null && fault === "" ? NOTHING : { ...NOTHING, ordered, fault };
  }

  /** null: only a fault is laid down, and the answer is as ever. */
  #laid(answer: FixtureAnswer, request: Asking): Ordering | null {
    const { fault } = answer;
    if ("error" in answer) return { ...NOTHING, error: httpError(answer.error), fault };
    if ("recorded" in answer) return { ...this.#recorded(answer.recorded, request), fault };
    if (answer.order.promptedJson) return { ...NOTHING, promptedJson: true, fault };
    return answer.order.kind === "none" ? null : { ...NOTHING, ordered: this.#ordered(answer.order, request), fault };
  }

  /** With its own times; or what it says, with those of the engine. */
  #recorded(recorded: Recording, request: Asking): Ordering {
    if (this.#kernel.config.text.replayTiming !== "scheduled") return { ...NOTHING, recorded };
    const { status, headers, events } = recorded;
    if (status >= 400) return { ...NOTHING, error: { status, headers, body: events[0]?.[1] ?? "", asItIs: true } };
    const order: Order = { kind: "text", text: saidIn(recorded), script: null, releases: false };
    return { ...NOTHING, ordered: this.#ordered(order, request) };
  }

  /** With `--answers echo`: all but what must have a form of its own. */
  #echoes(http: HttpRequest, request: Asking): boolean {
    if (!this.#kernel.config.text.echo || request.sampling.structure) return false;
    const calls = this.calls(http, request);
    return request.kind !== "chat" || !(forced({ choice: request.toolChoice }) || (calls !== null && calls !== false));
  }

  #queued(request: Asking): Ordered | null {
    const script = this.#plays.queue[this.#next];
    if (script === undefined) return null;
    this.#next++;
    return this.#played(script, ECHO, request);
  }

  /** Returns the order `of` a request, answered by a script. */
  #played(script: Script, of: Order, request: Asking): Ordered {
    const order = { ...of, ...playedScript(script) };
    return order.kind === "script" ? { order, text: null } : this.#ordered(order, request);
  }

  #named(name: string): Script {
    const script = this.#plays.named.get(name);
    if (script !== undefined) return script;
    throw new BrokenScript(`no script of --script is named "${name}"`);
  }

  #check(script: Script): void {
    const { size } = this.#vocabulary;
    const wrong = unknownIn(script, size);
    if (wrong !== undefined) throw new BrokenScript(`token id ${wrong} is out of vocabulary (${size} ids)`);
  }
}

/** Passes the first text on, and no other one. */
function firstOnly(say: (text: string) => void): (text: string) => void {
  let said = false;
  return (text) => {
    if (!said) say(text);
    said = true;
  };
}

/** Throws `BrokenScript`. */
function orderIn({ order }: Asking): Order {
  if ("broken" in order!) throw new BrokenScript(order.broken);
  return order!;
}

/** What stands behind a text decides how its last words become tokens: so much more is encoded than is said. */
const BEHIND_CHARACTERS = 4096;

/** Cuts the texts of an order, as one text, to what can be said: those after the cut are dropped. */
export function sayableParts({ order, text }: Ordered, tokens: number, maxTokenBytes: number): string[] {
  const texts = order.script?.parts?.map((part) => part.text) ?? [text ?? ""];
  let left = sayableText(texts.join(""), tokens, maxTokenBytes).length;
  const sayable: string[] = [];
  for (const one of texts) {
    if (left > 0) sayable.push(one.slice(0, left));
    left -= one.length;
  }
  return sayable;
}

/** As much of a text as so many tokens can say at most, and some more: nobody waits for what no answer says. */
export function sayableText(text: string, tokens: number, maxTokenBytes: number): string {
  const most = tokens * maxTokenBytes + BEHIND_CHARACTERS;
  if (text.length <= most) return text;
  // Not between the halves of a character.
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}
