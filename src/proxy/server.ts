/** Who stands before a real server? Passes requests on and answers back, disturbs them by a plan, keeps them for a recorder. */
import { FRONT_LIMITS } from "../config/front-limits.ts";
import type { Question } from "../content/fixtures/match.ts";
import { insteadOf } from "../faults/instead.ts";
import type { Plan } from "../faults/types.ts";
import type { Clock } from "../host/clock.ts";
import { bodyWithin } from "../http/body-within.ts";
import { HttpServer } from "../http/socket/server.ts";
import { PassingEvents, withLineFeeds } from "./events.ts";
import { questionIn } from "./question.ts";
import { RecordedAnswer, type Recorder } from "./recorder.ts";
import { passedOn } from "./style.ts";
import { type Passing, passUpstream, type UpstreamAnswer } from "./upstream.ts";

export interface ProxyOptions {
  readonly to: URL;
  readonly host: string;
  readonly port: number;
  /** Which plan disturbs the answer; null: none. `ordinal`: of the request. */
  readonly planFor: ((question: Question, key: string) => Plan | null) | null;
  readonly recorder: Recorder | null;
  readonly clock: Clock;
  readonly epochSeconds: () => number;
  readonly say: (line: string) => void;
}

/** Largest body of a request that is passed on. */
const BODY_MOST = 64 * 2 ** 20;
/** Longer answers are passed on as they come. */
const WHOLE_MOST = 8 * 2 ** 20;
const NOTHING = new Uint8Array();
const NOBODY = { onDrain() {}, onGone() {} };
const JSON_TYPE = { "content-type": "application/json" };

const failure = (status: number, message: string) =>
  JSON.stringify({ error: { message, type: "ProxyError", param: null, code: status } });

export class ProxyServer {
  readonly #server: HttpServer;
  readonly #options: ProxyOptions;
  /** When the clock began, microseconds since 1970. */
  readonly #originUs: number;
  #ordinal = 0;
  #open = 0;

  constructor(options: ProxyOptions) {
    const { host: hostname, port, clock, epochSeconds, say } = options;
    this.#options = options;
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
    return `http://${this.#server.hostname}:${this.#server.port}`;
  }

  close(): Promise<void> {
    return this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const { to, recorder, say, planFor, clock } = this.#options;
    const passing = await passingOf(request);
    if (passing === null)
      return this.#server.answer(request, 413, JSON_TYPE, failure(413, `at most ${BODY_MOST} bytes of a body pass`));
    this.#open++;
    const left = new AbortController();
    request.signal.addEventListener("abort", () => left.abort());
    try {
      const key = passing.headers["x-request-id"] ?? `${this.#ordinal++}`;
      const plan = request.method === "POST" ? (planFor?.(questionIn(passing), key) ?? null) : null;
      const instead = plan && (await this.#disturbed(request, passing, plan, key));
      if (instead) return instead;
      const beganUs = clock.now();
      const answer = await passUpstream(to, passing, plan !== null || recorder !== null, left.signal);
      const { status, headers } = answer;
      const kept = recorder && new RecordedAnswer(status, headers, Math.round(this.#originUs + beganUs));
      const keep = (text: string) => kept?.event(Math.round(clock.now() - beganUs), text);
      const response = isStream(answer)
        ? await this.#stream(request, answer, recorder !== null || plan !== null, plan !== null, keep)
        : await this.#whole(request, answer, keep);
      if (kept) recorder?.keep(passing, kept, response === null);
      return response ?? new Response(null);
    } catch (why) {
      say(`${to.origin} does not answer: ${(why as Error).message}`);
      return this.#server.answer(request, 502, JSON_TYPE, failure(502, `${to.origin}: ${(why as Error).message}`));
    } finally {
      this.#open--;
    }
  }

  /** The answer in place of the server's; null: there is none, and the plan is in its place. */
  async #disturbed(request: Request, passing: Passing, plan: Plan, key: string): Promise<Response | null> {
    await this.#server.disturb(request, { plan, key, told() {}, isBrief: true });
    const epochSeconds = this.#options.epochSeconds();
    const instead = insteadOf(plan, { before: 0, open: this.#open - 1, target: passing.target, epochSeconds });
    return instead && this.#server.answer(request, instead.status, instead.headers, instead.body);
  }

  /** In one piece; null: the server broke off, and so do we. */
  async #whole(
    request: Request,
    { status, headers, body }: UpstreamAnswer,
    keep: (text: string) => void,
  ): Promise<Response | null> {
    const parts: Uint8Array[] = [];
    let isBroken = false;
    try {
      for await (const part of body as AsyncIterable<Uint8Array>) parts.push(part);
    } catch {
      isBroken = true;
    }
    const bytes = Buffer.concat(parts);
    keep(bytes.toString());
    if (!isBroken) return this.#server.answer(request, status, headers, bytes);
    const sink = this.#server.open(request, NOBODY, null);
    this.#server.begin(request, status, headers);
    sink.writeParts(bytes, NOTHING, NOTHING);
    sink.reset();
    return null;
  }

  /** As it comes; event by event where somebody looks at them. null: the server broke off, and so do we. */
  async #stream(
    request: Request,
    { status, headers, body }: UpstreamAnswer,
    isRead: boolean,
    isDisturbed: boolean,
    keep: (text: string) => void,
  ): Promise<Response | null> {
    const flow = new Flow(body);
    const sink = this.#server.open(request, flow, null);
    flow.sink = sink;
    const response = this.#server.begin(request, status, headers);
    const events = new PassingEvents();
    const take = (event: string) => {
      keep(event);
      if (isDisturbed) sink.write(withLineFeeds(event));
    };
    const takeRest = () => {
      const rest = isRead ? events.end() : "";
      if (rest !== "") take(rest);
    };
    try {
      for await (const bytes of body as AsyncIterable<Uint8Array>) {
        if (isRead) for (const event of events.push(bytes)) take(event);
        if (!isDisturbed) sink.writeParts(bytes, NOTHING, NOTHING);
        await flow.open();
      }
    } catch {
      takeRest();
      sink.reset();
      return null;
    }
    takeRest();
    sink.end();
    return response;
  }
}

/** Answers of unknown length are passed on as they come, whatever they are. */
const isStream = ({ headers, length }: UpstreamAnswer) =>
  headers["content-type"]?.startsWith("text/event-stream") === true || length === null || length > WHOLE_MOST;

/** Stops reading the server while the client does not keep up. */
class Flow {
  sink: { readonly full: boolean } | null = null;
  readonly #body: { destroy(): unknown };
  #drained: (() => void) | null = null;

  constructor(body: { destroy(): unknown }) {
    this.#body = body;
  }

  async open(): Promise<void> {
    if (this.sink?.full !== true) return;
    await new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
  }

  onDrain(): void {
    this.#drained?.();
  }

  onGone(): void {
    this.#body.destroy();
    this.#drained?.();
  }
}

/** null: the body is too large. */
async function passingOf(request: Request): Promise<Passing | null> {
  const body = await bodyWithin(request, BODY_MOST);
  if (body === null) return null;
  const headers: Record<string, string> = {};
  request.headers.forEach((value, name) => {
    headers[name] = value;
  });
  const { pathname, search } = new URL(request.url);
  return { method: request.method, target: pathname + search, headers, body };
}
