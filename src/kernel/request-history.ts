/** What did clients send, and what became of it? The last requests, with their bodies while there is room, for tests. */

import type { Outcome, TimelineFacts } from "../engine/interface/types.ts";
import type { HttpRequest } from "../wire/http/request.ts";
import type { ClientGeneration, ClientRequest } from "./client-request.ts";
import type { Witness, WitnessedChoice } from "./witness.ts";

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
  /** For a generation, which ends with its last token. */
  asks: boolean;
  choices: readonly WitnessedChoice[];
  generations: readonly ClientGeneration[];
}

export const REQUESTS_KEPT = 1000;
/** Bodies together; a larger one is not kept, and the oldest ones go first. */
export const BODY_BYTES_KEPT = 64 * 2 ** 20;
const SECRET = /^(authorization|proxy-authorization|cookie|.*(api-?key|token|secret))$/;
const FINISHES = ["stop", "length", "abort", null, "repetition"];
const OUTCOMES: Readonly<Partial<Record<Outcome, ClientRequest["outcome"]>>> = {
  abort: "aborted",
  error: "failed",
  refused: "refused",
};

export class RequestHistory implements Witness {
  readonly #nowMs: () => number;
  readonly #epochMs: (us: number) => number;
  #entries: Entry[] = [];
  #of = new WeakMap<HttpRequest, Entry>();
  #bodyBytes = 0;
  /** Generations that have not ended. */
  open = 0;
  next = 0;

  /** `epochMs`: milliseconds since 1970 of a time of the engines' clock. */
  constructor(nowMs: () => number, epochMs: (us: number) => number) {
    this.#nowMs = nowMs;
    this.#epochMs = epochMs;
  }

  came(request: HttpRequest): void {
    const { url, method } = request;
    const headers: Record<string, string> = {};
    request.headers.forEach((value, name) => {
      headers[name] = SECRET.test(name) ? "[struck out]" : value;
    });
    const path = url.slice(url.indexOf("/", url.indexOf("://") + 3));
    const arrivalMs = this.#nowMs();
    const entry: Entry = { method, path, headers, arrivalMs, ...BARE };
    this.#of.set(request, entry);
    this.#entries.push(entry);
    this.next++;
    if (this.#entries.length > REQUESTS_KEPT) this.#drop(this.#entries.shift()!);
  }

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

  asks(request: HttpRequest): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    this.open++;
    entry.asks = true;
    entry.outcome = "open";
    entry.endMs = null;
  }

  generates(request: HttpRequest, choices: readonly WitnessedChoice[]): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    entry.choices = choices;
  }

  answered(request: HttpRequest, status: number): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    entry.status = status;
    if (!entry.asks) this.#end(entry, status < 400 ? "answered" : status < 500 ? "refused" : "failed");
  }

  /** Whoever answered it: what `answered` has told is not changed. */
  left(request: HttpRequest, status: number): void {
    if (this.#of.get(request)?.status === null) this.answered(request, status);
  }

  ended(request: HttpRequest, outcome: Outcome): void {
    const entry = this.#of.get(request);
    if (entry === undefined) return;
    const { choices } = entry;
    this.open--;
    // Numbers in place of the answer itself, which takes memory.
    entry.generations = this.#ways(choices);
    entry.choices = choices.map(({ tokens, finish, named, called }) => ({
      ...{ tokens, finish, named, called, submission: null },
    }));
    this.#end(entry, OUTCOMES[outcome] ?? "answered");
  }

  /** The oldest first. */
  requests(): ClientRequest[] {
    return this.#entries.map((entry) => this.#shown(entry));
  }

  last(): ClientRequest | undefined {
    const entry = this.#entries.at(-1);
    return entry && this.#shown(entry);
  }

  /** Numbers count what has come; the oldest that is kept, and the next one. */
  get first(): number {
    return this.next - this.#entries.length;
  }

  row(number: number): ClientRequest | undefined {
    const entry = this.#entries[number - this.first];
    return entry && this.#shown(entry);
  }

  /** Nothing has come so far. */
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

  #ways(choices: readonly WitnessedChoice[]): ClientGeneration[] {
    return choices.flatMap(({ submission }) => (submission?.timeline ? [this.#way(submission.timeline)] : []));
  }

  #way({ id, promptTokens, cachedTokens, preemptions, ...way }: TimelineFacts): ClientGeneration {
    const ms = (us: number) => (Number.isNaN(us) ? null : this.#epochMs(us));
    const { queuedUs, scheduledUs, prefillEndUs } = way;
    const times = { queuedMs: ms(queuedUs), scheduledMs: ms(scheduledUs), firstTokenMs: ms(prefillEndUs) };
    return { id, promptTokens, cachedTokens, preemptions, ...times };
  }

  #end(entry: Entry, outcome: ClientRequest["outcome"]): void {
    entry.outcome = outcome;
    entry.endMs = this.#nowMs();
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

function finishOf({ finish, named, called }: WitnessedChoice): string | null {
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
