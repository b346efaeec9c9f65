/**
 * Leads a request through its stages: read, admit, order, encode, prepare, submit, then a stream or a whole answer. A stage
 * begins at once unless the stage before it has to wait. The engine decides when the request runs.
 */

import { andThen, type MaybePromise, orElse, thenLater } from "../../../base/maybe-promise.ts";
import { atOnceOrInTurns } from "../../../base/pieces.ts";
import { logUnexpected } from "../../../base/unexpected.ts";
import type { Outcome } from "../../../engine/interface/types.ts";
import type { CountedOnce, Ticket } from "../../../kernel/accounting.ts";
import type { Recording } from "../../../text/canned/fixtures/recording.ts";
import type { Handler } from "../../../wire/http/routes.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { LoraAdapters } from "../front/adapters.ts";
import { Admission } from "../front/admission.ts";
import type { RouteDeps } from "../front/checked.ts";
import type { Context } from "../front/http.ts";
import { loadHeader } from "../front/load-header.ts";
import { Queue } from "../front/queue.ts";
import { FaultOrders } from "../overrides/fault-orders.ts";
import { questionOf } from "../overrides/fixtures.ts";
import { type AnswerOrders, disturbsAny, Orders } from "../overrides/orders.ts";
import { engineBusy, internalError, paused } from "../request/errors.ts";
import { Transfers } from "../request/kv-transfer.ts";
import type { Encoding } from "../request/prompts.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import { CollectedAnswer, type WholeAnswer, type WholeAnswerListener } from "./collect.ts";
import { answerContext, TRUTH_HEADER } from "./context.ts";
import { follow } from "./follow.ts";
import type { Background, BodyReader, Form } from "./form.ts";
import { LongBody } from "./long-body.ts";
import { playBack } from "./play-back.ts";
import { encode, type FittedRequest, fit, type PreparedRequest, prepare } from "./prepare.ts";
import { type AdmittedRequest, admit, type Decision, readRequest } from "./read-request.ts";
import { sendLong } from "./send-long.ts";
import type { DeclinedRequest, ReceivedRequest, Serving } from "./serving.ts";
import { StreamedAnswer } from "./stream.ts";
import { type Job, type SubmitFailure, submitChoices, submitOnly } from "./submit.ts";
import { truthSummary } from "./truth-summary.ts";

/** Status for a client that has disconnected. It is never sent. */
const CLIENT_GONE = 499;
/** Owner of a stream that ends as soon as it begins. */
const NO_OWNER = { onDrain() {}, onGone() {} };
const soon = (_: number, act: () => void) => queueMicrotask(act);

/** A request that is being answered. */
interface Exchange {
  readonly context: Context;
  readonly ticket: CountedOnce;
  /** Writes the answer. null until the body was read: refusals then have the shape of OpenAI's API. */
  form: Form | null;
}

type MaybeResponse = MaybePromise<Response>;
/** The type of the choices of a request, as `submitChoices` accepts them. */
type Choices = Parameters<typeof submitChoices>[2];
/** Writes the response of a whole answer. */
type ResponseWriter = (exchange: Exchange, answer: CollectedAnswer, body: WholeAnswer) => MaybeResponse;

/** Waits for a whole answer and responds with it. */
class PendingReply implements WholeAnswerListener {
  #resolve: ((response: MaybeResponse) => void) | null = null;
  #response: MaybeResponse | null = null;

  constructor(
    private readonly write: ResponseWriter,
    private readonly exchange: Exchange,
  ) {}

  /** Returns the value for the handler: the response, a promise of it, or the front's mark for a later response. */
  until(answer: CollectedAnswer): MaybeResponse {
    const { context } = this.exchange;
    // Already set if one of many choices failed before the last one was submitted.
    if (this.#response !== null) return this.#response;
    const { signal } = context.request;
    if (signal.aborted) answer.gone();
    else signal.addEventListener("abort", answer, ONCE);
    return context.front.later ?? new Promise((resolve) => (this.#resolve = resolve));
  }

  collected(answer: CollectedAnswer, body: WholeAnswer): void {
    this.#response = this.write(this.exchange, answer, body);
    this.#resolve?.(this.#response);
  }
}

const ONCE = { once: true };

/** Receives a whole answer that is generated in the background. */
class BackgroundListener implements WholeAnswerListener {
  constructor(private readonly background: Background) {}

  collected(_: CollectedAnswer, body: WholeAnswer): void {
    if (typeof body !== "string") this.background.failed();
  }
}

/** Answers requests of all OpenAI-shaped APIs. */
export class Generator {
  readonly serving: Serving;

  constructor(deps: RouteDeps, server: ServerTraits, adapters: LoraAdapters) {
    const { kernel, bodies } = deps;
    this.serving = {
      ...deps,
      server,
      adapters,
      admission: new Admission(kernel, bodies),
      orders: new Orders(kernel),
      faults: new FaultOrders(kernel, {
        faulted: (id) => kernel.metrics.accounting.faulted?.(id),
        consumed: kernel.backend.consumed,
      }),
      queue: new Queue(kernel.live.values.queueLimits, kernel.backend, kernel.metrics.accounting),
      transfers: new Transfers(kernel.live.values.kvTransferTime, kernel.config.engine.seed),
    };
  }

  /** Number of requests that are being served. */
  get open(): number {
    return this.serving.admission.open;
  }

  /** Returns the handler of a route whose bodies `reader` reads. */
  answering(reader: BodyReader): Handler {
    return (context) => this.answer(context, reader);
  }

  /** Answers one request and counts it exactly once. */
  answer(context: Context, reader: BodyReader): MaybeResponse {
    const { admission, kernel } = this.serving;
    const ticket = admission.enter();
    const { history } = kernel.truth;
    if (history) {
      history.asks(context.request);
      ticket.tell((outcome) => history.ended(context.request, outcome));
    }
    const exchange = { context, ticket, form: null };
    try {
      const reading = readRequest(this.serving, context, reader);
      const answered =
        reading instanceof Promise ? thenLater(reading, this.#admit, exchange) : this.#admit(reading, exchange);
      return answered instanceof Promise ? orElse(answered, this.#fail, exchange) : answered;
    } catch (error) {
      return this.#fail(error, exchange);
    }
  }

  readonly #fail = (error: unknown, { context, ticket }: Exchange): Response => {
    const { http } = this.serving;
    const left = context.request.signal.aborted; // a disconnect makes reading the body throw
    if (!left) logUnexpected("a request failed and is answered with 500", error);
    ticket.settle(left ? "abort" : "error");
    if (left) http.visitOf(context)?.done(500, 0);
    return left ? new Response(null, { status: CLIENT_GONE }) : http.error(context, internalError);
  };

  readonly #admit = (received: ReceivedRequest | DeclinedRequest, exchange: Exchange): MaybeResponse => {
    if ("error" in received) return this.#refuse(exchange, received.error);
    exchange.form = received.form;
    const admitted = admit(this.serving, received);
    return admitted instanceof Promise
      ? thenLater(admitted, this.#order, exchange, received)
      : this.#order(admitted, exchange, received);
  };

  readonly #order = (admitted: Decision, exchange: Exchange, received: ReceivedRequest): MaybeResponse => {
    const { ordering } = admitted;
    const isDisturbed = ordering !== undefined && (ordering.fault !== "" || disturbsAny(this.serving.kernel));
    const instead = isDisturbed ? this.#errorInstead(exchange, received, ordering) : null;
    return instead === null
      ? this.#encode(null, exchange, received, admitted)
      : thenLater(instead, this.#encode, exchange, received, admitted);
  };

  /** `instead`: the error that a plan of faults sends instead of the answer, or null. */
  readonly #encode = (
    instead: ErrorAnswer | null,
    exchange: Exchange,
    received: ReceivedRequest,
    admitted: Decision,
  ): MaybeResponse => {
    if (instead !== null) return this.#refuse(exchange, instead);
    if ("error" in admitted) return this.#refuse(exchange, admitted.error);
    if (admitted.ordering.recorded) return this.#playBack(exchange, received, admitted.ordering.recorded);
    const encodedFromUs = this.serving.kernel.backend.nowUs();
    const encoding = encode(this.serving, received);
    return encoding instanceof Promise
      ? thenLater(encoding, this.#prepare, exchange, received, admitted, encodedFromUs)
      : this.#prepare(encoding, exchange, received, admitted, encodedFromUs);
  };

  readonly #prepare = (
    encoding: Encoding,
    exchange: Exchange,
    received: ReceivedRequest,
    admitted: AdmittedRequest,
    encodedFromUs: number,
  ): MaybeResponse => {
    if ("error" in encoding) return this.#refuse(exchange, encoding.error);
    const preparing = prepare(this.serving, received, admitted, encoding);
    return preparing instanceof Promise
      ? this.#submitLater(preparing, exchange, received, admitted, encodedFromUs)
      : this.#submit(exchange, received, admitted, preparing, encodedFromUs);
  };

  async #submitLater(
    preparing: Promise<PreparedRequest | null>,
    exchange: Exchange,
    received: ReceivedRequest,
    admitted: AdmittedRequest,
    encodedFromUs: number,
  ): Promise<Response> {
    const prepared = await preparing;
    this.serving.kernel.backend.consumed(received.bytes); // the body is garbage only now, after the wait
    if (received.http.signal.aborted) return this.#abort(exchange.context, exchange.ticket);
    if (prepared === null) return this.#refuse(exchange, internalError); // the encoder's thread died
    return this.#submit(exchange, received, admitted, prepared, encodedFromUs);
  }

  /** Submits the request. Nothing is awaited before its first choice, so that requests reach the engine in their order. */
  #submit(
    exchange: Exchange,
    received: ReceivedRequest,
    admitted: AdmittedRequest,
    prepared: PreparedRequest,
    encodedFromUs: number,
  ): MaybeResponse {
    const { serving } = this;
    const fitted = fit(serving, received, admitted, prepared);
    if ("error" in fitted) return this.#decline(exchange, received, fitted);
    const context = this.#begin(exchange, received, fitted, prepared);
    const late = serving.queue.refuses(admitted.choices);
    if (late !== null) return this.#refuse(exchange, late);
    const job = { received, fitted, context, encodedFromUs };
    serving.http.bodyUsed(exchange.context);
    return received.request.stream ? this.#stream(exchange, job) : this.#collect(exchange, job);
  }

  #errorInstead(
    { context }: Exchange,
    { http, request, body }: ReceivedRequest,
    ordering: AnswerOrders,
  ): Promise<ErrorAnswer | null> | null {
    const { faults, kernel } = this.serving;
    return faults.of(context, ordering, this.open - 1, () =>
      questionOf(http, request, body, kernel.text.model.vocabulary),
    );
  }

  #begin(
    { ticket }: Exchange,
    received: ReceivedRequest,
    { cut, seeds, script }: FittedRequest,
    { echoes }: Pick<PreparedRequest, "echoes">,
  ) {
    const { kernel, orders } = this.serving;
    const logprobs = (script && orders.player.logprobs(script)) ?? null;
    const queuedUs = kernel.backend.nowUs();
    const parts = script?.parts ?? null;
    return answerContext(this.serving, { received, cut, ticket, seeds, echoes, logprobs, parts, queuedUs });
  }

  #stream(exchange: Exchange, job: Job): MaybeResponse {
    const { http, kernel, admission } = this.serving;
    const { context, ticket } = exchange;
    kernel.backend.opened?.();
    const { background = null } = job.received.form;
    const log = background?.log ?? null;
    const answer = new StreamedAnswer(job.context);
    const sink = log ?? http.open(context, answer, kernel.metrics.accounting);
    answer.sink = sink;
    const onAccepted = () => {
      kernel.truth.history?.generates(context.request, answer.choices);
      answer.accepted();
    };
    return andThen(this.#submitAll(job, answer.choices, onAccepted), (refused) => {
      if (refused === "left") {
        answer.onGone();
        return this.#abort(context, ticket);
      }
      if (refused === "paused") return this.#decline(exchange, job.received, { error: paused, cut: job.fitted.cut });
      if (refused !== null) return this.#refuse(exchange, engineBusy);
      admission.answers(ticket, answer, log === null ? http.visitOf(context) : null);
      if (log === null) return http.stream(context);
      background!.signal.addEventListener("abort", () => answer.cancel());
      return follow(http, context, log, 0);
    });
  }

  /** Submits the choices to the engine. Returns null, or the reason if they were not all accepted. */
  #submitAll(job: Job, choices: Choices, onAccepted: () => void): MaybePromise<SubmitFailure | null> {
    if (choices.length === 1) return submitOnly(this.serving, job, choices, onAccepted);
    return atOnceOrInTurns(submitChoices(this.serving, job, choices, onAccepted), this.serving.kernel.backend);
  }

  #collect(exchange: Exchange, job: Job): MaybeResponse {
    const { context } = exchange;
    const { form } = job.received;
    const { background } = form;
    const listener = background ? new BackgroundListener(background) : new PendingReply(this.#reply, exchange);
    const answer = new CollectedAnswer(job.context, listener);
    const onAccepted = () => {
      this.serving.kernel.truth.history?.generates(context.request, answer.choices);
      form.accepted(job.context);
    };
    return andThen(this.#submitAll(job, answer.choices, onAccepted), (refused) => {
      if (refused === "busy" || refused === "paused")
        return this.#refuse(exchange, refused === "paused" ? paused : engineBusy);
      if (refused === "left") answer.gone();
      else this.serving.admission.answers(exchange.ticket, answer);
      if (listener instanceof PendingReply) return listener.until(answer);
      // The request is answered now. Its answer is generated in the background.
      background!.signal.addEventListener("abort", answer);
      return this.serving.http.json(context, background!.queued());
    });
  }

  /** Responds with a whole answer. Never throws and never rejects. */
  readonly #reply = (exchange: Exchange, answer: CollectedAnswer, body: WholeAnswer): MaybeResponse => {
    try {
      return orElse(this.#respond(exchange, answer, body), this.#fail, exchange);
    } catch (error) {
      return this.#fail(error, exchange);
    }
  };

  #respond({ context, ticket }: Exchange, answer: CollectedAnswer, body: WholeAnswer): MaybeResponse {
    const { http, kernel } = this.serving;
    const { truthUs, form } = answer.context;
    if (body === null) return this.#abort(context, ticket);
    const isLong = body instanceof LongBody;
    if (typeof body !== "string" && !isLong) return http.error(context, form.refused?.(body) ?? body);
    const truth = truthUs ? truthSummary(answer.choices, truthUs) : null;
    const load = loadHeader(context.request, kernel.backend);
    const headers = truth === null ? load : { ...load, [TRUTH_HEADER]: truth };
    if (!isLong) return http.json(context, body, headers);
    return sendLong(http, kernel.backend, context, body, headers).then((sent) => sent ?? this.#abort(context, ticket));
  }

  #playBack({ context, ticket }: Exchange, { arrivalUs }: ReceivedRequest, recording: Recording): MaybeResponse {
    const { http, kernel } = this.serving;
    http.bodyUsed(context);
    const ended = (outcome: Outcome) => ticket.settle(outcome);
    return playBack({ http, backend: kernel.backend, context, ended }, recording, arrivalUs);
  }

  #refuse({ context, ticket, form }: Exchange, error: ErrorAnswer): Response {
    ticket.settle(error === internalError ? "error" : "refused");
    const shown = this.serving.admission.shown(error);
    return this.serving.http.error(context, shown.asItIs ? shown : (form?.refused?.(shown) ?? shown));
  }

  /**
   * Refuses a request. vLLM finds some errors only after it has sent the head of a stream, and then so do we. Such an error is
   * an event of the stream, or the stream is broken off in the next turn of the event loop.
   */
  #decline(exchange: Exchange, received: ReceivedRequest, { error, cut }: DeclinedRequest): Response {
    if (cut === undefined || !received.request.stream) return this.#refuse(exchange, error);
    const { http, kernel } = this.serving;
    const { context, ticket } = exchange;
    const { form } = received;
    ticket.settle("refused");
    const facts = {
      received,
      cut,
      ticket,
      seeds: cut.map(() => 0),
      echoes: null,
      logprobs: null,
      parts: null,
      queuedUs: 0,
    };
    const first = form.accepted(answerContext(this.serving, facts));
    const last = form.failed(error);
    const sink = http.open(context, NO_OWNER);
    for (const event of [...first, ...(last ?? [])]) sink.write(event);
    if (last !== null) sink.end();
    const response = http.stream(context);
    if (last === null) (kernel.backend.after ?? soon)(0, () => sink.reset());
    return response;
  }

  /** Ends the exchange of a client that disconnected. The access log shows 200, as vLLM's middleware does. */
  #abort(context: Context, ticket: Ticket): Response {
    ticket.settle("abort");
    this.serving.http.visitOf(context)?.done(200, 0);
    return new Response(null, { status: CLIENT_GONE });
  }
}
