/**
 * Finds the answer that is ordered for a request. An order is in the header `X-Understudy`, in the body's field `understudy`, in
 * a fixture (docs/how-to/fixtures.md), or in the file of `--script` (docs/how-to/scripts.md). The first of these with an order
 * wins.
 */

import { andThen } from "../../../base/maybe-promise.ts";
import type { FixtureAnswer } from "../../../text/canned/fixtures/fixture.ts";
import type { AnswerRules } from "../../../text/canned/fixtures/match.ts";
import { type Recording, saidIn } from "../../../text/canned/fixtures/recording.ts";
import { BrokenScript, type Order, playedScript, type Script, touchesEngine } from "../../../text/canned/script.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { ORDER_HEADER, orderInHeader } from "../front/order-header.ts";
import { badRequest, orderNotAllowed } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { GenerationRequest } from "../request/request.ts";
import { type RequestOrders, requestOrdersOf } from "../request/request-orders.ts";
import { forced } from "../tool-calls/output.ts";
import { Failures } from "./failures.ts";
import { httpError, lastContent, questionOf } from "./fixtures.ts";
import { withCallsWritten } from "./ordered-calls.ts";
import { ScriptPlayer } from "./script-player.ts";

/** An order, and the text that must be encoded before it can be played. */
export interface OrderedAnswer {
  readonly order: Order;
  /** Text to encode first. Null: none. */
  readonly text: string | null;
}

/** Reports whether faults may disturb answers although their requests order nothing: by `--fault-plan`, or by chance. */
export const disturbsAny = ({ live, text }: Pick<OpenAiKernel, "live" | "text">) =>
  text.canned.faultRules !== undefined || (live.values.faults.get().faultRate ?? 0) > 0;

/** The orders for a request: at most one of an answer, an error and a recording, and a plan of faults. */
export interface AnswerOrders {
  /** The ordered answer. Null: none. */
  readonly ordered: OrderedAnswer | null;
  /** The error that answers the request. */
  readonly error?: ErrorAnswer;
  /** True if a fixture orders JSON for a prompt that asks for it in words. Absent: the server's option decides. */
  readonly promptedJson?: boolean;
  /** A recording that is played back without the engine. */
  readonly recorded?: Recording;
  /** Text of the plan of faults. "": none. */
  readonly fault: string;
  /** True if the operator ordered the plan, or clients may order anything. */
  readonly trusted: boolean;
}

const NOTHING: AnswerOrders = { ordered: null, fault: "", trusted: true };
const ECHO: Order = { kind: "echo", text: "", script: null, releases: false };

/** Finds and plays the orders for the requests of a server. */
export class Orders {
  readonly #vocabulary: Vocabulary;
  readonly player: ScriptPlayer;
  readonly #failures: Failures;
  /** Orders that clients may give. */
  readonly #allowed: RequestOrders;
  /** Logs why a JSON Schema in a prompt gets no JSON. Later calls do nothing. */
  readonly schemaNotice: (why: string) => void;

  constructor(private readonly kernel: OpenAiKernel) {
    const { config, live, text } = kernel;
    this.#vocabulary = text.model.vocabulary;
    this.player = new ScriptPlayer(kernel);
    this.#failures = new Failures(config, live.values.failures);
    this.#allowed = requestOrdersOf(config);
    this.schemaNotice = firstOnly((why) =>
      kernel.log(`answered a JSON Schema in a prompt with prose (later cases are not logged): ${why}`),
    );
  }

  get #mayFail(): boolean {
    const { config, live } = this.kernel;
    return config.faults.errorHeader === true || (live.values.failures.get().failureRate ?? 0) > 0;
  }

  /** Returns the orders for a request. `body`: its bytes. */
  of(http: HttpRequest, request: GenerationRequest, body: Body): AnswerOrders | Promise<AnswerOrders> {
    const failure = this.#mayFail ? this.#failures.of(http) : null;
    if (failure !== null) return { ...NOTHING, error: failure };
    const { rules } = this.kernel.text;
    return rules === undefined ? this.#requested(http, request, body) : this.#ruled(rules, http, request, body);
  }

  #ruled(
    rules: AnswerRules,
    http: HttpRequest,
    request: GenerationRequest,
    body: Body,
  ): AnswerOrders | Promise<AnswerOrders> {
    const ruled = rules.answerTo(questionOf(http, request, body, this.#vocabulary));
    const orderingOf = (answer: FixtureAnswer | null) => {
      if (answer === null) return this.#requested(http, request, body);
      return this.#prepared(answer, request) ?? { ...this.#requested(http, request, body), fault: answer.fault };
    };
    return andThen(ruled, orderingOf);
  }

  /** Returns the orders that the request itself gives, or else those of the operator. */
  #requested(http: HttpRequest, request: GenerationRequest, body: Body): AnswerOrders {
    const header = this.#allowed === "none" ? null : http.headers.get(ORDER_HEADER);
    if (header === null && (request.order === null || this.#allowed === "none"))
      return this.#byOperator(http, request, body);
    try {
      const order = header === null ? orderIn(request) : orderInHeader(header);
      if (order.releases) this.player.release();
      const { fault } = order;
      const faults = fault === undefined ? {} : { fault, trusted: this.#allowed === "all" };
      if (order.kind === "none") return { ...this.#byOperator(http, request, body), ...faults };
      if (order.script !== null) {
        this.player.check(order.script);
        if (this.#allowed !== "all" && touchesEngine(order.script)) return { ...NOTHING, error: orderNotAllowed };
      }
      return { ...NOTHING, ordered: this.#ordered(order, request), ...faults };
    } catch (error) {
      if (error instanceof BrokenScript)
        return { ...NOTHING, error: badRequest(`understudy: ${error.message}`, "understudy") };
      throw error;
    }
  }

  /** Returns the tool calls that the request orders, or null if it leaves them open. */
  calls(http: HttpRequest, request: GenerationRequest): Exclude<Order["calls"], undefined> | null {
    return this.#orderOf(http, request)?.calls ?? null;
  }

  /** Returns the request with the amount of thinking that it orders. */
  onto<R extends GenerationRequest>(http: HttpRequest, request: R): R {
    const tokens = this.#orderOf(http, request)?.reasoningTokens;
    return tokens === undefined ? request : { ...request, reasoningTokens: tokens };
  }

  /** Returns the order that the request gives, or null. Also null if it is broken: `of` reports that. */
  #orderOf(http: HttpRequest, request: GenerationRequest): Order | null {
    const header = this.#allowed === "none" ? null : http.headers.get(ORDER_HEADER);
    if (header === null && (request.order === null || this.#allowed === "none")) return null;
    try {
      return header === null ? orderIn(request) : orderInHeader(header);
    } catch {
      return null;
    }
  }

  #ordered(original: Order, request: GenerationRequest): OrderedAnswer {
    if (original.kind === "play") return this.#played(this.player.named(original.text), original, request);
    const order = withCallsWritten(original, request, this.kernel.config.text.toolCallParser);
    if (order.kind === "echo") return { order, text: request.kind === "chat" ? lastContent(request) : null };
    return { order, text: order.kind === "text" ? order.text : null };
  }

  /** Returns the operator's orders for a request: of a fixture, of the queue in `--script`, or of `--answers echo`. */
  #byOperator(http: HttpRequest, request: GenerationRequest, body: Body): AnswerOrders {
    const { fixtures } = this.kernel.text.canned;
    const answer = fixtures?.answerTo(questionOf(http, request, body, this.#vocabulary)) ?? null;
    const prepared = answer && this.#prepared(answer, request);
    if (prepared !== null) return prepared;
    const { fault } = answer ?? NOTHING;
    const ordered = this.#queued(request) ?? (this.#echoes(http, request) ? this.#ordered(ECHO, request) : null);
    return ordered === null && fault === "" ? NOTHING : { ...NOTHING, ordered, fault };
  }

  /** Returns the orders of a fixture. Null: it has only a fault, and the answer is found as without it. */
  #prepared(answer: FixtureAnswer, request: GenerationRequest): AnswerOrders | null {
    const { fault } = answer;
    if ("error" in answer) return { ...NOTHING, error: httpError(answer.error), fault };
    if ("recorded" in answer) return { ...this.#recorded(answer.recorded, request), fault };
    if (answer.order.promptedJson) return { ...NOTHING, promptedJson: true, fault };
    return answer.order.kind === "none" ? null : { ...NOTHING, ordered: this.#ordered(answer.order, request), fault };
  }

  /** Returns the orders for a recording: played with its own times, or its text with the times of the engine. */
  #recorded(recorded: Recording, request: GenerationRequest): AnswerOrders {
    if (this.kernel.config.text.replayTiming !== "scheduled") return { ...NOTHING, recorded };
    const { status, headers, events } = recorded;
    if (status >= 400) return { ...NOTHING, error: { status, headers, body: events[0]?.[1] ?? "", asItIs: true } };
    const order: Order = { kind: "text", text: saidIn(recorded), script: null, releases: false };
    return { ...NOTHING, ordered: this.#ordered(order, request) };
  }

  /** Reports whether `--answers echo` applies. It does not if the answer must have a form or call a tool. */
  #echoes(http: HttpRequest, request: GenerationRequest): boolean {
    if (!this.kernel.config.text.echo || request.sampling.structure) return false;
    const calls = this.calls(http, request);
    return request.kind !== "chat" || !(forced({ choice: request.toolChoice }) || (calls !== null && calls !== false));
  }

  /** Takes the next script of the queue, or returns null if none is left. */
  #queued(request: GenerationRequest): OrderedAnswer | null {
    const script = this.player.next();
    return script && this.#played(script, ECHO, request);
  }

  /** Replaces the answer of an order by a script. */
  #played(script: Script, of: Order, request: GenerationRequest): OrderedAnswer {
    const order = { ...of, ...playedScript(script) };
    return order.kind === "script" ? { order, text: null } : this.#ordered(order, request);
  }
}

/** Returns a function that passes on only its first text. */
function firstOnly(say: (text: string) => void): (text: string) => void {
  let said = false;
  return (text) => {
    if (!said) say(text);
    said = true;
  };
}

/** Returns the order in the field `understudy`. Throws `BrokenScript`. */
function orderIn({ order }: GenerationRequest): Order {
  if ("broken" in order!) throw new BrokenScript(order.broken);
  return order!;
}

/** Characters that are encoded after the longest possible answer, because they decide how its last words become tokens. */
const SPARE_CHARACTERS = 4096;

/** Cuts the parts of an ordered answer, like one text, to the length that an answer can have. Drops parts after the cut. */
export function sayableParts({ order, text }: OrderedAnswer, tokens: number, maxTokenBytes: number): string[] {
  const texts = order.script?.parts?.map((part) => part.text) ?? [text ?? ""];
  let left = sayableText(texts.join(""), tokens, maxTokenBytes).length;
  const sayable: string[] = [];
  for (const part of texts) {
    if (left > 0) sayable.push(part.slice(0, left));
    left -= part.length;
  }
  return sayable;
}

/** Cuts a text to the most characters that `tokens` tokens can have, and some more, so that nothing is encoded in vain. */
export function sayableText(text: string, tokens: number, maxTokenBytes: number): string {
  const most = tokens * maxTokenBytes + SPARE_CHARACTERS;
  if (text.length <= most) return text;
  // Do not split a pair of surrogates.
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}
