/**
 * Sends requests over HTTP/1 and enforces their timeouts. Builds the bytes of each request, passes them to a connection, and
 * makes the record.
 */
import type { Cancel, Clock } from "../../../base/clock.ts";
import { type Random, seeded } from "../../../base/random.ts";
import { Patterns } from "../answers/answer.ts";
import { type BodyOptions, bodyOf, UsageLevel } from "../requests/body.ts";
import { DIALECTS, generates } from "../requests/dialects.ts";
import type { ConversationMessage, RequestRecord, Turn } from "../requests/types.ts";
import { Connections, type SendHandle, type ServerAddress } from "./connections.ts";
import { ClientExchange } from "./exchange.ts";
import { retryInUs } from "./retries.ts";

export interface ClientOptions {
  readonly target: ServerAddress;
  /** Value of the Host header. */
  readonly host: string;
  readonly path: string;
  readonly body: BodyOptions;
  readonly headers: Readonly<Record<string, string>>;
  readonly pooled: boolean;
  readonly timeoutUs: number;
  /** Maximum number of times that a request is sent again. */
  readonly retries: number;
  /** Seed of the pauses before retries. */
  readonly seed: number;
  readonly userAgent: string;
}

/** A client that sends the requests of a run. */
export interface LoadClient {
  /** Number of chunks with output so far. */
  readonly outputs: number;
  readonly connections: { readonly opened: number; readonly resent: number };
  /** True if requests state an output length and answers state how many tokens they have. */
  readonly asksLength: boolean;
  send(order: PendingRequest, ended: (record: RequestRecord, text: string) => void): void;
  prepare(turn: Turn): PreparedBody;
  whenQuiet(work: () => boolean): void;
  countFrom(us: number): void;
  cutAll(why: string): void;
  close(): void;
}

export type Disturbance =
  | { readonly kind: "cancelled"; readonly afterUs: number }
  | { readonly kind: "slow reader"; readonly pauseUs: number };

/** A request that is ready to be sent. */
export interface PendingRequest {
  readonly index: number;
  readonly requestId: string;
  readonly intendedUs: number;
  readonly turn: Turn;
  readonly history: readonly ConversationMessage[];
  /** True if the answer's text is needed for the next turn of the conversation. */
  readonly keepText: boolean;
  readonly disturb: Disturbance | null;
  /** Body that was made ahead of time with `prepare`. Null: the body is made now. */
  readonly prepared: PreparedBody | null;
  /** Number of requests that may follow before this one has ended. */
  readonly more: number;
}

export interface PreparedBody {
  readonly text: string;
  readonly usageLevel: UsageLevel;
}

interface Flight {
  readonly order: PendingRequest;
  readonly startUs: number;
  usageLevel: UsageLevel;
  exchange: ClientExchange;
  sending: SendHandle;
  readonly ended: (record: RequestRecord, text: string) => void;
  cancels: Cancel | null;
  /** Number of retries so far, and time of the first send in microseconds. NaN before the first send. */
  retries: number;
  sendUs: number;
  /** Cancels the wait before a retry. Null while there is no such wait. */
  waits: Cancel | null;
}

/** Microseconds between two checks of the timeouts. */
const SWEEP_US = 100_000;

export class Client implements LoadClient {
  /** Level of the `stream_options` that are currently sent. Reduced when the server refuses them. */
  usageLevel = UsageLevel.EachChunk;
  readonly connections: Connections;
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #head: string;
  readonly #patterns = new Patterns();
  readonly #random: Random;
  /** Time that is 0 in records. */
  #originUs = 0;
  /** Requests in progress, in the order of their start. */
  readonly #flights = new Set<Flight>();
  #sweeps = false;

  constructor(options: ClientOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#random = seeded(options.seed ^ 0x4e747279);
    this.connections = new Connections(options.target, options.pooled, clock);
    const headers: Record<string, string> = {
      Host: options.host,
      "User-Agent": options.userAgent,
      Accept: options.body.stream ? "text/event-stream" : "application/json",
      "Content-Type": "application/json",
      ...(options.pooled ? {} : { Connection: "close" }),
      ...options.headers,
    };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#head = `POST ${options.path} HTTP/1.1\r\n${lines.join("")}`;
  }

  /** False for `/infer`, whose answers do not state tokens, and for embeddings, which have none. */
  get asksLength(): boolean {
    const { dialect } = this.#options.body;
    return dialect !== "triton-http" && generates(dialect);
  }

  get running(): number {
    return this.#flights.size;
  }

  /** Number of chunks with output so far. */
  get outputs(): number {
    return this.#patterns.outputs;
  }

  /** Sets the time that is 0 in later records. Intended times and the clock stay absolute. */
  countFrom(us: number): void {
    this.#originUs = us;
  }

  /** Makes the body of a request without history ahead of time. */
  prepare(turn: Turn): PreparedBody {
    return { text: JSON.stringify(bodyOf(turn, [], this.#options.body, this.usageLevel)), usageLevel: this.usageLevel };
  }

  /**
   * Schedules low-priority work for moments without incoming data. `work` does one piece per call and returns true if there is
   * more.
   */
  whenQuiet(work: () => boolean): void {
    this.connections.whenQuiet(work);
  }

  /** Sends a request. Throws a TraceError before sending if the API cannot carry the prompt. */
  send(order: PendingRequest, ended: (record: RequestRecord, text: string) => void): void {
    const body = this.#bodyOf(order);
    const flight: Flight = {
      order,
      startUs: this.#clock.now(),
      usageLevel: this.usageLevel,
      exchange: null as unknown as ClientExchange,
      sending: null as unknown as SendHandle,
      ended,
      cancels: null,
      retries: 0,
      sendUs: Number.NaN,
      waits: null,
    };
    this.#flights.add(flight);
    this.#launch(flight, body);
    if (!this.#sweeps) this.#sweep();
    const { disturb } = order;
    if (disturb?.kind === "cancelled") {
      flight.cancels = this.#clock.at(this.#clock.now() + disturb.afterUs, () =>
        this.#stop(flight, "cancelled", "by --cancel-rate"),
      );
    } else if (disturb?.kind === "slow reader") this.#dawdle(flight, disturb.pauseUs);
  }

  /** Cancels all requests in progress. */
  cutAll(why: string): void {
    for (const flight of [...this.#flights]) this.#stop(flight, "unfinished", why);
  }

  close(): void {
    this.cutAll("closed");
    this.connections.close();
  }

  #bodyOf({ prepared, turn, history }: PendingRequest): string {
    if (prepared?.usageLevel === this.usageLevel) return prepared.text;
    return JSON.stringify(bodyOf(turn, history, this.#options.body, this.usageLevel));
  }

  #launch(flight: Flight, body = this.#bodyOf(flight.order)): void {
    const { order } = flight;
    const { body: options } = this.#options;
    flight.usageLevel = this.usageLevel;
    const { requestId } = order;
    const payload = options.dialect === "triton-http" ? `{"id":${JSON.stringify(requestId)},${body.slice(1)}` : body;
    const length = Buffer.byteLength(payload);
    const request = Buffer.from(
      `${this.#head}X-Request-Id: ${requestId}\r\nContent-Length: ${length}\r\n\r\n${payload}`,
    );
    flight.exchange = new ClientExchange(
      {
        dialect: options.dialect,
        stream: options.stream,
        patterns: this.#patterns,
        expected: order.turn.outputTokens ?? 64,
        keepText: order.keepText,
      },
      () => this.#ended(flight),
    );
    flight.sending = this.connections.send(request, flight.exchange, order.more);
  }

  #ended(flight: Flight): void {
    const { exchange } = flight;
    if (this.#asksTooMuch(flight)) {
      if (this.usageLevel === flight.usageLevel) this.usageLevel++;
      this.#launch(flight);
      return;
    }
    if (Number.isNaN(flight.sendUs)) flight.sendUs = exchange.sendUs;
    if (!this.#isRetried(flight)) this.#finish(flight, exchange.answer.failure);
  }

  #finish(flight: Flight, failure: RequestRecord["failure"]): void {
    const { exchange, order, sendUs, retries } = flight;
    this.#flights.delete(flight);
    flight.cancels?.();
    const { answer, endUs, status } = exchange;
    const record = answer.record({ order, originUs: this.#originUs, sendUs, endUs, status, retries });
    flight.ended({ ...record, failure }, answer.text);
  }

  /** Schedules a retry and returns true, if the request may be retried. Requests that are disturbed on purpose are not. */
  #isRetried(flight: Flight): boolean {
    const { exchange, order } = flight;
    const { failure } = exchange.answer;
    if (failure === null || flight.retries >= this.#options.retries || order.disturb !== null) return false;
    const { status, headers } = exchange;
    const waitUs = retryInUs({ kind: failure.kind, status, headers }, flight.retries, this.#random);
    if (waitUs === null) return false;
    flight.waits = this.#clock.at(this.#clock.now() + waitUs, () => {
      flight.waits = null;
      flight.retries++;
      this.#launch(flight);
    });
    return true;
  }

  /** True if the server refused `stream_options` with 400 or 422. The request is then sent again with fewer of them. */
  #asksTooMuch({ exchange: { status, errorText }, usageLevel }: Flight): boolean {
    const { dialect, stream } = this.#options.body;
    if ((status !== 400 && status !== 422) || usageLevel === UsageLevel.Nothing || !stream) return false;
    if (!DIALECTS[dialect].asksUsage) return false;
    return /continuous_usage_stats|stream_options|include_usage/.test(errorText);
  }

  #stop(flight: Flight, kind: "timeout" | "connect" | "cancelled" | "unfinished", message: string): void {
    if (flight.waits !== null) {
      // The request is waiting for a retry, so the reason of the last attempt explains why there is no answer.
      const last = flight.exchange.answer.failure!.message;
      flight.waits();
      this.#finish(flight, { kind, message: `${message}, while it waited for a retry after: ${last}` });
      return;
    }
    flight.sending.cut();
    flight.exchange.stop(kind, message, this.#clock.now());
    flight.exchange.settle();
  }

  /** Stops requests that exceeded the timeout. All have the same timeout, so the oldest come first. */
  #sweep(): void {
    this.#sweeps = this.#flights.size > 0;
    if (!this.#sweeps) return;
    this.#clock.at(this.#clock.now() + SWEEP_US, () => {
      const beforeUs = this.#clock.now() - this.#options.timeoutUs;
      for (const flight of this.#flights) {
        if (flight.startUs > beforeUs) break;
        const isSent = flight.exchange.sendUs >= 0;
        const after = `after ${this.#options.timeoutUs / 1e6} s`;
        if (isSent) this.#stop(flight, "timeout", `no end ${after}`);
        else this.#stop(flight, "connect", `no connection ${after}`);
      }
      this.#sweep();
    });
  }

  /** Reads slowly: reads during one turn of the event loop, then pauses, and so on. */
  #dawdle(flight: Flight, pauseUs: number): void {
    flight.sending.pause();
    flight.cancels = this.#clock.at(this.#clock.now() + pauseUs, () => {
      flight.sending.resume();
      this.#clock.turn(() => {
        if (this.#flights.has(flight)) this.#dawdle(flight, pauseUs);
      });
    });
  }
}
