/** Forwards requests to a real server and its answers to the client, disturbs answers by a plan, and records exchanges. */

import type { Clock } from "../../base/clock.ts";
import { listenUrl } from "../../base/listen-url.ts";
import { substituteAnswer } from "../../faults/instead.ts";
import type { Plan } from "../../faults/plan/types.ts";
import type { Question } from "../../text/canned/fixtures/match.ts";
import { bodyWithin } from "../../wire/http/body-within.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import type { HttpRequest } from "../../wire/http/request.ts";
import type { Exchange } from "../../wire/http1/exchange.ts";
import type { IncomingRequest } from "../../wire/http1/request.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import { firstValue, type HeaderLines } from "./fields.ts";
import { Passage } from "./passage.ts";
import { questionIn } from "./question.ts";
import { RecordedAnswer, type Recorder } from "./recorder.ts";
import { failure, passedOn } from "./style.ts";
import { type ForwardedRequest, passUpstream, unknownCodings } from "./upstream.ts";

export interface ProxyOptions {
  readonly to: URL;
  readonly host: string;
  readonly port: number;
  /** Chooses the plan for an answer; returns null for no faults. null: no answer gets faults. */
  readonly planFor: ((question: Question, key: string) => Plan | null) | null;
  readonly recorder: Recorder | null;
  readonly clock: Clock;
  readonly epochSeconds: () => number;
  readonly say: (line: string) => void;
}

/** Maximum size of a request body in bytes. The body is read completely before it is forwarded, because rules match it. */
const BODY_MOST = 64 * 2 ** 20;
const TOO_LARGE = `at most ${BODY_MOST} bytes of a body pass`;
const JSON_TYPE = { "content-type": "application/json" };

type ProxiedRequest = IncomingRequest<Exchange>;

export class ProxyServer {
  readonly #server: HttpServer;
  /** Start of the clock, in microseconds since 1970. */
  readonly #originUs: number;
  #ordinal = 0;
  #open = 0;

  constructor(private readonly options: ProxyOptions) {
    const { host: hostname, port, clock, epochSeconds, say } = options;
    this.#originUs = epochSeconds() * 1e6 - clock.now();
    this.#server = new HttpServer(
      { fetch: (request) => this.#answer(request) },
      {
        ...{ hostname, port, tls: undefined, reusePort: false, clock, epochSeconds, style: passedOn, warn: say },
        frontLimits: { ...FRONT_LIMITS, keepAliveS: 60 },
      },
    );
  }

  get url(): string {
    return listenUrl(this.#server);
  }

  /** Closes all connections. */
  close(): Promise<void> {
    this.options.recorder?.close();
    return this.#server.stop(true);
  }

  /** Answers a request. The answer is written to the exchange; the returned value only marks that. */
  async #answer(request: HttpRequest): Promise<Response> {
    // `HttpServer` calls this only with its own requests.
    const incoming = request as ProxiedRequest;
    const fields: [string, string][] = [];
    incoming.headers.eachSent((name, value) => fields.push([name, value]));
    const refused = refusalOf(incoming.method, fields);
    if (refused !== null) return this.#refuse(request, ...refused);
    const body = await bodyWithin(request, BODY_MOST);
    if (body === null) return this.#refuse(request, 413, TOO_LARGE);
    const passing: ForwardedRequest = { method: incoming.method, target: incoming.target, fields, body };
    this.#open++;
    try {
      const key = firstValue(passing.fields, "x-request-id") ?? `${this.#ordinal++}`;
      const plan = passing.method === "POST" ? (this.options.planFor?.(questionIn(passing), key) ?? null) : null;
      const instead = plan && (await this.#disturbed(request, passing, plan, key));
      if (instead) return instead;
      await this.#pass(incoming, passing, plan !== null);
    } catch (error) {
      this.#fail(incoming, 500, `${passing.method} could not be forwarded: ${(error as Error).message}`);
    } finally {
      this.#open--;
    }
    return this.#server.later;
  }

  /** Sends the server's answer, or 502 if the server does not answer. */
  async #pass(incoming: ProxiedRequest, passing: ForwardedRequest, isDisturbed: boolean): Promise<void> {
    const { reading: exchange, signal } = incoming;
    const { to, recorder, clock } = this.options;
    const left = new AbortController();
    signal.addEventListener("abort", () => left.abort());
    if (signal.aborted) left.abort();
    const beganUs = clock.now();
    const elapsedUs = () => Math.round(clock.now() - beganUs);
    const sent = passUpstream(to, passing, {
      plain: isDisturbed || recorder !== null,
      signal: left.signal,
      onInterim: (head) => exchange.inform(head),
    });
    const answer = await sent.catch((error: NodeJS.ErrnoException) => {
      // For a name with several addresses Node gives an error without a message.
      this.#fail(incoming, 502, `${to.origin}: ${error.message || error.code || error.name}`);
      return null;
    });
    if (answer === null) return;
    const arrivalUs = Math.round(this.#originUs + beganUs);
    const record = recorder && new RecordedAnswer(answer.status, answer.fields, arrivalUs);
    const passed = await new Passage(exchange, answer, (part) => record?.part(elapsedUs(), part)).run();
    if (record === null || recorder === null) return;
    record.end(elapsedUs());
    if (passed === "left") recorder.skip(passing);
    else recorder.keep(passing, record, passed === "broken");
  }

  /** Reports the failure and answers with it. If an answer has begun, the client must see that it is incomplete. */
  #fail(incoming: ProxiedRequest, status: number, message: string): void {
    if (incoming.signal.aborted) return;
    this.options.say(message);
    if (incoming.reading.answered) incoming.reading.cut();
    else this.#refuse(incoming, status, message);
  }

  #refuse(request: HttpRequest, status: number, message: string): Response {
    return this.#server.answer(request, status, JSON_TYPE, failure(status, message));
  }

  /** Sets the plan on the exchange. Returns an answer of the plan that replaces the server's, or null. */
  async #disturbed(request: HttpRequest, passing: ForwardedRequest, plan: Plan, key: string): Promise<Response | null> {
    await this.#server.disturb(request, { plan, key, told() {}, isBrief: true });
    const epochSeconds = this.options.epochSeconds();
    const instead = substituteAnswer(plan, { before: 0, open: this.#open - 1, target: passing.target, epochSeconds });
    return instead && this.#server.answer(request, instead.status, instead.headers, instead.body);
  }
}

/** Returns status and message if the request cannot be forwarded. Called before the body is read, so that clients need not send it. */
function refusalOf(method: string, fields: HeaderLines): [status: number, message: string] | null {
  if (method === "CONNECT") return [501, "CONNECT is not supported: this proxy stands before one server"];
  const [coding] = unknownCodings(fields);
  if (coding !== undefined) return [501, `the transfer coding ${coding} is not supported, only chunked is`];
  return Number(firstValue(fields, "content-length") ?? 0) > BODY_MOST ? [413, TOO_LARGE] : null;
}
