/** Who sends requests and keeps their deadlines? Builds each one's bytes, gives it to a connection, makes its record. */
import type { Cancel, Clock } from "../../../base/clock.ts";
import { type Random, seeded } from "../../../base/random.ts";
import { Patterns } from "../answers/answer.ts";
import { type BodyOptions, bodyOf, UsageAsked } from "../requests/body.ts";
import { DIALECTS, generates } from "../requests/dialects.ts";
import type { ConversationMessage, RequestRecord, Turn } from "../requests/types.ts";
import { Connections, type Sending, type ServerAddress } from "./connections.ts";
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
  /** How often a request is sent again at most. */
  readonly retries: number;
  /** Seed of the pauses before requests are sent again. */
  readonly seed: number;
  readonly userAgent: string;
}

/** Whoever sends a run's requests. */
export interface LoadClient {
  /** Pieces of answers so far. */
  readonly outputs: number;
  readonly connections: { readonly opened: number; readonly resent: number };
  /** Requests say how many tokens they want, and answers show how many they have. */
  readonly asksLength: boolean;
  send(order: PendingRequest, ended: (record: RequestRecord, text: string) => void): void;
  prepare(turn: Turn): Prepared;
  whenQuiet(work: () => boolean): void;
  countFrom(us: number): void;
  cutAll(why: string): void;
  close(): void;
}

export type Disturbance =
  | { readonly kind: "cancelled"; readonly afterUs: number }
  | { readonly kind: "slow reader"; readonly pauseUs: number };

/** A request that is about to be sent. */
export interface PendingRequest {
  readonly index: number;
  readonly requestId: string;
  readonly intendedUs: number;
  readonly turn: Turn;
  readonly history: readonly ConversationMessage[];
  /** The answer's text is wanted, for the next turn. */
  readonly keepText: boolean;
  readonly disturb: Disturbance | null;
  /** Bytes made ahead with `prepare`; null: they are made now. */
  readonly prepared: Prepared | null;
  /** So many requests may follow before this one has ended. */
  readonly more: number;
}

export interface Prepared {
  readonly text: string;
  readonly asked: UsageAsked;
}

interface Flight {
  readonly order: PendingRequest;
  readonly startUs: number;
  asked: UsageAsked;
  exchange: ClientExchange;
  sending: Sending;
  readonly ended: (record: RequestRecord, text: string) => void;
  cancels: Cancel | null;
  /** How often it was sent again, and when it was sent first; NaN: not yet. */
  retries: number;
  sendUs: number;
  /** Cancels the wait before the request is sent again; null: there is none. */
  waits: Cancel | null;
}

/** How often deadlines are looked at. */
const SWEEP_US = 100_000;

export class Client implements LoadClient {
  /** What is asked of `stream_options` by now. */
  asked = UsageAsked.EachChunk;
  readonly connections: Connections;
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #head: string;
  readonly #patterns = new Patterns();
  readonly #random: Random;
  /** What is 0 in records. */
  #originUs = 0;
  /** In the order of their start. */
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

  /** An answer of `/infer` comes whole and says nothing of tokens; an embedding has none. */
  get asksLength(): boolean {
    const { dialect } = this.#options.body;
    return dialect !== "triton-http" && generates(dialect);
  }

  get running(): number {
    return this.#flights.size;
  }

  /** Chunks with output so far. */
  get outputs(): number {
    return this.#patterns.outputs;
  }

  /** Records count from here on; orders and the clock do not. */
  countFrom(us: number): void {
    this.#originUs = us;
  }

  /** The body of a request that has no history, before its time has come. */
  prepare(turn: Turn): Prepared {
    return { text: JSON.stringify(bodyOf(turn, [], this.#options.body, this.asked)), asked: this.asked };
  }

  /** `work` can wait until nothing comes. It does one piece per call, and says whether there is more. */
  whenQuiet(work: () => boolean): void {
    this.connections.whenQuiet(work);
  }

  /** Throws a TraceError, before anything is under way, for a prompt that the API cannot carry. */
  send(order: PendingRequest, ended: (record: RequestRecord, text: string) => void): void {
    const body = this.#bodyOf(order);
    const flight: Flight = {
      order,
      startUs: this.#clock.now(),
      asked: this.asked,
      exchange: null as unknown as ClientExchange,
      sending: null as unknown as Sending,
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

  /** Ends everything under way. */
  cutAll(why: string): void {
    for (const flight of [...this.#flights]) this.#stop(flight, "unfinished", why);
  }

  close(): void {
    this.cutAll("closed");
    this.connections.close();
  }

  #bodyOf({ prepared, turn, history }: PendingRequest): string {
    if (prepared?.asked === this.asked) return prepared.text;
    return JSON.stringify(bodyOf(turn, history, this.#options.body, this.asked));
  }

  #launch(flight: Flight, body = this.#bodyOf(flight.order)): void {
    const { order } = flight;
    const { body: options } = this.#options;
    flight.asked = this.asked;
    const { requestId } = order;
    const said = options.dialect === "triton-http" ? `{"id":${JSON.stringify(requestId)},${body.slice(1)}` : body;
    const length = Buffer.byteLength(said);
    const request = Buffer.from(`${this.#head}X-Request-Id: ${requestId}\r\nContent-Length: ${length}\r\n\r\n${said}`);
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
      if (this.asked === flight.asked) this.asked++;
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

  /** A request that got no answer may be sent again; one that is disturbed on purpose is not. */
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

  /** A server that knows less of `stream_options` says so with 400 or 422: the request is sent again without. */
  #asksTooMuch({ exchange: { status, errorText }, asked }: Flight): boolean {
    const { dialect, stream } = this.#options.body;
    if ((status !== 400 && status !== 422) || asked === UsageAsked.Nothing || !stream) return false;
    if (!DIALECTS[dialect].asksUsage) return false;
    return /continuous_usage_stats|stream_options|include_usage/.test(errorText);
  }

  #stop(flight: Flight, kind: "timeout" | "connect" | "cancelled" | "unfinished", message: string): void {
    if (flight.waits !== null) {
      // The attempt before has ended, with its own reason: that is why there is no answer yet.
      const last = flight.exchange.answer.failure!.message;
      flight.waits();
      this.#finish(flight, { kind, message: `${message}, while it waited to be sent again after: ${last}` });
      return;
    }
    flight.sending.cut();
    flight.exchange.stop(kind, message, this.#clock.now());
    flight.exchange.settle();
  }

  /** All have the same time, so those that started first are over it first. */
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

  /** Reads for a turn of the loop, then nothing for the pause, and so on. */
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
