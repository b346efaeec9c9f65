/** Keeps the last requests of clients and how they were answered, with their bodies while there is room. For tests. */

import type { Finish, Outcome, Submission, TimelineFacts } from "../engine/interface/types.ts";
import type { HttpRequest } from "../wire/http/request.ts";
import type { ClientGeneration, ClientRequest } from "./client-request.ts";

/** The part of one choice that has been generated so far. */
export interface KeptChoice {
  readonly tokens: number;
  readonly finish: Finish | null;
  readonly named: string | null;
  readonly called: boolean;
  /** null: the engine has not accepted the choice, or only its numbers are kept. */
  readonly submission: Pick<Submission, "timeline"> | null;
}

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly arrivalMs: number;
  body: Uint8Array | null;
  bodyBytes: number;
  status: number | null;
  outcome: ClientRequest["outcome"];
  endMs: number | null;
  /** True for a request for a generation, which ends with its last token. */
  asks: boolean;
  choices: readonly KeptChoice[];
  generations: readonly ClientGeneration[];
}

export const REQUESTS_KEPT = 1000;
/** Most bytes of all bodies together. The oldest are dropped first. A larger body is not kept. */
export const BODY_BYTES_KEPT = 64 * 2 ** 20;
const SECRET = /^(authorization|proxy-authorization|cookie|.*(api-?key|token|secret))$/;
const FINISHES = ["stop", "length", "abort", null, "repetition"];
const OUTCOMES: Readonly<Partial<Record<Outcome, ClientRequest["outcome"]>>> = {
  abort: "aborted",
  error: "failed",
  refused: "refused",
};

export class RequestHistory {
  #entries: Entry[] = [];
  #of = new WeakMap<HttpRequest, Entry>();
  #bodyBytes = 0;
  /** Number of requests for generations that have not ended. */
  open = 0;
  /** Number of the next request. */
  next = 0;

  /** `epochMs` converts a time of the engines' clock into milliseconds since 1970. */
  constructor(
    private readonly nowMs: () => number,
    private readonly epochMs: (us: number) => number,
  ) {}

  /** Keeps a request whose head has come. Called before its key is checked. */
  came(request: HttpRequest): void {
    const { url, method } = request;
    const headers: Record<string, string> = {};
    request.headers.forEach((value, name) => {
      headers[name] = SECRET.test(name) ? "[struck out]" : value;
    });
    const path = url.slice(url.indexOf("/", url.indexOf("://") + 3));
    const arrivalMs = this.nowMs();
    const entry: Entry = { method, path, headers, arrivalMs, ...BARE };
    this.#of.set(request, entry);
    this.#entries.push(entry);
    this.next++;
    if (this.#entries.length > REQUESTS_KEPT) this.#drop(this.#entries.shift()!);
  }

  /** Keeps the body. */
  body(request: HttpRequest, bytes: Uint8Array): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    entry.bodyBytes = bytes.length;
    if (bytes.length > BODY_BYTES_KEPT || !this.#entries.includes(entry)) return;
    entry.body = bytes.slice();
    this.#bodyBytes += bytes.length;
    for (const old of this.#entries) {
      if (this.#bodyBytes <= BODY_BYTES_KEPT) break;
      if (old !== entry) this.#drop(old);
    }
  }

  /** Changes fields of the request's entry and returns the entry. Returns undefined if the history does not keep the request. */
  #note(request: HttpRequest, changes: Partial<Entry>): Entry | undefined {
    const entry = this.#of.get(request);
    return entry && Object.assign(entry, changes);
  }

  /** Notes that the request asks for a generation. `ended` follows. */
  asks(request: HttpRequest): void {
    if (this.#note(request, { asks: true, outcome: "open", endMs: null })) this.open++;
  }

  /** Notes that the engine has accepted the first choice. */
  generates(request: HttpRequest, choices: readonly KeptChoice[]): void {
    this.#note(request, { choices });
  }

  /** Notes the status. Called when the head of the answer leaves. */
  answered(request: HttpRequest, status: number): void {
    const entry = this.#note(request, { status });
    if (entry?.asks === false) this.#end(entry, status < 400 ? "answered" : status < 500 ? "refused" : "failed");
  }

  /** Notes the status unless `answered` did. */
  left(request: HttpRequest, status: number): void {
    if (this.#of.get(request)?.status === null) this.answered(request, status);
  }

  /** Notes the outcome of a generation. Called once. */
  ended(request: HttpRequest, outcome: Outcome): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    const { choices } = entry;
    this.open--;
    // Keeps numbers in place of the answer, which takes memory.
    entry.generations = this.#ways(choices);
    entry.choices = choices.map(({ tokens, finish, named, called }) => ({
      ...{ tokens, finish, named, called, submission: null },
    }));
    this.#end(entry, OUTCOMES[outcome] ?? "answered");
  }

  /** Returns the kept requests, the oldest first. */
  requests(): ClientRequest[] {
    return this.#entries.map((entry) => this.#shown(entry));
  }

  /** Returns the newest request. undefined: none has come. */
  last(): ClientRequest | undefined {
    const entry = this.#entries.at(-1);
    return entry && this.#shown(entry);
  }

  /** Number of the oldest request that is kept. Requests are numbered from 0 in the order in which they came. */
  get first(): number {
    return this.next - this.#entries.length;
  }

  /** Returns a request by its number. undefined: it is not kept. */
  row(number: number): ClientRequest | undefined {
    const entry = this.#entries[number - this.first];
    return entry && this.#shown(entry);
  }

  /** Forgets all requests, and begins again with number 0. */
  clear(): void {
    this.#entries = [];
    this.next = 0;
    this.#of = new WeakMap();
    this.#bodyBytes = 0;
    this.open = 0;
  }

  #shown({ body, choices, asks: _, generations, ...entry }: Entry): ClientRequest {
    const tokens = choices.reduce((sum, choice) => sum + choice.tokens, 0);
    const ways = entry.outcome === "open" ? this.#ways(choices) : generations;
    return { ...entry, body: body && readBody(body), tokens, finish: choices.map(finishOf), generations: ways };
  }

  #ways(choices: readonly KeptChoice[]): ClientGeneration[] {
    return choices.flatMap(({ submission }) => (submission?.timeline ? [this.#way(submission.timeline)] : []));
  }

  #way({ id, promptTokens, cachedTokens, preemptions, ...way }: TimelineFacts): ClientGeneration {
    const ms = (us: number) => (Number.isNaN(us) ? null : this.epochMs(us));
    const { queuedUs, scheduledUs, prefillEndUs } = way;
    const times = { queuedMs: ms(queuedUs), scheduledMs: ms(scheduledUs), firstTokenMs: ms(prefillEndUs) };
    return { id, promptTokens, cachedTokens, preemptions, ...times };
  }

  #end(entry: Entry, outcome: ClientRequest["outcome"]): void {
    entry.outcome = outcome;
    entry.endMs = this.nowMs();
  }

  #drop(entry: Entry): void {
    this.#bodyBytes -= entry.body?.length ?? 0;
    entry.body = null;
  }
}

const BARE: Omit<Entry, "method" | "path" | "headers" | "arrivalMs"> = {
  ...{ body: null, bodyBytes: 0, status: null, outcome: "open", endMs: null, asks: false },
  ...{ choices: [], generations: [] },
};

function finishOf({ finish, named, called }: KeptChoice): string | null {
  if (finish === null) return null;
  return named ?? (called && finish === 0 ? "tool_calls" : FINISHES[finish]!);
}

function readBody(body: Uint8Array): unknown {
  const text = new TextDecoder().decode(body);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
