/** A request on a socket: its head, and the implementation of `HttpRequest` over bytes that may still be arriving. */
import type { HttpRequest, LeaveSignal } from "../http/request.ts";
import { PART_BYTES, SMALL_BODY_BYTES } from "../http/unfinished.ts";

/** The lines of a request before its body. */
export interface Head {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  /** "1.1", "1.0", "0.9", "2.0". */
  readonly version: string;
  readonly fields: HeaderFields;
  /** True if the connection stays open after the answer, unless the answer says otherwise. */
  readonly keepAlive: boolean;
}

/**
 * Header lines of a request, with the used part of the interface of `Headers`. Of several lines with one name the first counts,
 * as in Starlette.
 */
export class HeaderFields {
  readonly #sent: readonly string[];
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  /** `names`: as sent. The lists must not change afterwards. */
  constructor(names: readonly string[], values: readonly string[]) {
    this.#sent = names;
    this.#names = names.map(lowerCase);
    this.#values = values;
  }

  /** Returns a value, its bytes as Latin-1, or null. `name`: in lower case. */
  get(name: string): string | null {
    const at = this.#names.indexOf(name);
    return at === -1 ? null : (this.#values[at] ?? "");
  }

  has(name: string): boolean {
    return this.#names.includes(name);
  }

  /** Calls `act` for each line, so several times for a name that was sent several times. */
  forEach(act: (value: string, name: string) => void): void {
    for (const [at, name] of this.#names.entries()) act(this.#values[at] ?? "", name);
  }

  /** Calls `act` for each line in the order sent. Names keep the letter case in which they were sent. */
  eachSent(act: (name: string, value: string) => void): void {
    for (const [at, name] of this.#sent.entries()) act(name, this.#values[at] ?? "");
  }
}

/** Header names in lower case, by the name as sent. Saves a conversion per line. */
const lowerCaseNames = new Map<string, string>();
const LOWER_CASE_MOST = 256;
const LOWER_CASE_CHARACTERS = 64;

function lowerCase(name: string): string {
  const known = lowerCaseNames.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  if (lowerCaseNames.size < LOWER_CASE_MOST && name.length <= LOWER_CASE_CHARACTERS) lowerCaseNames.set(name, lower);
  return lower;
}

/** Bytes of an unread body above which reading from the connection pauses. uvicorn's `HIGH_WATER_LIMIT`. */
const UNREAD_MOST = 65_536;

/** Bytes of a body passed to `give`'s callback per turn of the event loop. */
const BURST_BYTES = 524_288;

const NONE = new HeaderFields([], []);

/** Parts below this size are joined, because each part costs more than its bytes and a chunk may have one byte. */
const SHORT_PART_BYTES = 1024;
/** First and largest size of the memory of joined parts. */
const JOINED_FIRST_BYTES = 1024;
const JOINED_MOST_BYTES = 65_536;

/** Controls reading from the client's connection. */
export interface ReadControl {
  pause(): void;
  resume(): void;
  /** Reports that the handler reads the body, so that 100 Continue is sent as uvicorn does. */
  bodyWanted(): void;
}

type AbortListener = (() => void) | { handleEvent(): void };

/** Reports that the client left. Has the used part of `AbortSignal` and costs a microsecond less to create. */
class DisconnectSignal implements LeaveSignal {
  aborted = false;
  /** The first listener. Most requests have only one. */
  #first: AbortListener | null = null;
  #others: AbortListener[] | null = null;

  addEventListener(_: "abort", listener: AbortListener): void {
    if (this.#first === null) this.#first = listener;
    else {
      this.#others ??= [];
      this.#others.push(listener);
    }
  }

  abort(): void {
    this.aborted = true;
    const listeners = [this.#first, ...(this.#others ?? [])];
    this.#first = this.#others = null;
    for (const listener of listeners)
      if (typeof listener === "function") listener();
      else listener?.handleEvent();
  }
}

/** A request whose body may still be arriving. `R`: the type of its connection or stream. */
export class IncomingRequest<R extends ReadControl = ReadControl> implements HttpRequest {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  headers: HeaderFields;
  readonly #reading: R;
  #parts: Uint8Array[] = [];
  /** Memory of the last part if it is joined from several; otherwise null. */
  #joined: Uint8Array | null = null;
  #unread = 0;
  #complete = false;
  #gone = false;
  /** True if the rest of the body is discarded. */
  #dropped = false;
  #paused = false;
  #wake: (() => void) | null = null;
  #giving: ((part: Uint8Array) => void) | null = null;
  /** Memory of the parts that arrived so far, with the cost of each part. */
  #held = 0;
  /** Called to answer that the server has no room for the body. null: the reader of the body cannot do that. */
  crowdedOut: (() => void) | null = null;
  readonly signal = new DisconnectSignal();

  /** `unreadMost`: bytes of an unread body above which reading pauses. */
  constructor(
    { method, target, fields }: Head,
    private readonly scheme: "http" | "https",
    reading: R,
    private readonly unreadMost: number = UNREAD_MOST,
  ) {
    this.method = method;
    this.target = target;
    this.headers = fields;
    this.#reading = reading;
  }

  /** The absolute URL. The host is always `localhost`; the client sends only path and query. */
  get url(): string {
    return `${this.scheme}://localhost${this.target}`;
  }

  get reading(): R {
    return this.#reading;
  }

  /** The parts as they arrive. Reading fails if the client leaves. */
  get body(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  /** Reads the whole body. Rejects if the client leaves. */
  async bytes(): Promise<Uint8Array> {
    const whole = this.whole();
    if (whole !== null) return whole;
    this.#reading.bodyWanted();
    const parts: Uint8Array[] = [];
    for await (const part of this.#read()) parts.push(part);
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }

  /**
   * Calls `to` with each part as it arrives. The callback must copy the bytes, because their memory is freed afterwards. After
   * BURST_BYTES reading pauses for one `turn` of the event loop, because the runtime would read megabytes in one go. Rejects if
   * the client leaves.
   */
  async give(to: (part: Uint8Array) => void, turn: () => Promise<void>): Promise<void> {
    this.#reading.bodyWanted();
    for (const part of this.#takeParts()) to(part);
    let burst = 0;
    this.#giving = (part) => {
      to(part);
      burst += part.length;
      if (burst < BURST_BYTES || this.#paused) return;
      this.#paused = true;
      this.#reading.pause();
      void turn().then(() => {
        burst = 0;
        this.#resume();
      });
    };
    while (!this.#complete && !this.#gone && !this.#dropped) await this.#nextPart();
    this.#giving = null;
    if (!this.#complete) throw new Error("the client left");
  }

  /** Returns and consumes the body if it has arrived in one part. Otherwise returns null; use `bytes`. */
  whole(): Uint8Array | null {
    if (!this.#complete || this.#parts.length !== 1) return null;
    this.#reading.bodyWanted();
    return this.#takeParts()[0]!;
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    this.#reading.bodyWanted();
    try {
      for (;;) {
        if (this.#parts.length === 0 && !this.#complete && !this.#gone) await this.#nextPart();
        if (this.#gone) throw new Error("the client left");
        yield* this.#takeParts();
        if (this.#complete && this.#parts.length === 0) return;
      }
    } finally {
      this.drop();
    }
  }

  #nextPart(): Promise<void> {
    this.#resume();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  #takeParts(): Uint8Array[] {
    const parts = this.#parts;
    this.#parts = [];
    this.#joined = null;
    this.#unread = 0;
    this.#resume();
    return parts;
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#reading.resume();
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  /** Bytes kept of a small body whose rest has not arrived. */
  get unfinishedBytes(): number {
    return this.#complete || this.#dropped || this.#gone || this.#held > SMALL_BODY_BYTES ? 0 : this.#held;
  }

  /**
   * Discards the body to make room for others, and answers with an error. Returns false if the reader cannot answer.
   * Called by the connection, as are all methods below.
   */
  giveWay(): boolean {
    if (this.crowdedOut === null) return false;
    this.crowdedOut();
    this.drop();
    return true;
  }

  /** Takes a part of the body. Returns false if the part is not kept. */
  came(part: Uint8Array): boolean {
    if (this.#dropped) return false;
    this.#held += part.length;
    if (this.#giving !== null) {
      this.#giving(part);
      return false;
    }
    if (!this.#join(part)) {
      this.#held += PART_BYTES;
      this.#parts.push(part);
    }
    this.#unread += part.length;
    if (this.#unread > this.unreadMost && this.#wake === null && !this.#paused) {
      this.#paused = true;
      this.#reading.pause();
    }
    this.#wakeReader();
    return true;
  }

  /** Appends a short part to the last one. Returns false if the part must be kept separately. */
  #join(part: Uint8Array): boolean {
    const last = this.#parts.at(-1);
    if (last === undefined || part.length >= SHORT_PART_BYTES) {
      this.#joined = null;
      return false;
    }
    const length = last.length + part.length;
    if (this.#joined === null ? last.length >= SHORT_PART_BYTES : length > JOINED_MOST_BYTES) {
      this.#joined = null;
      return false;
    }
    if (this.#joined === null || length > this.#joined.length) {
      const size = this.#joined === null ? JOINED_FIRST_BYTES : 4 * this.#joined.length;
      this.#joined = new Uint8Array(Math.max(length, size));
      this.#joined.set(last);
    }
    this.#joined.set(part, last.length);
    this.#parts[this.#parts.length - 1] = this.#joined.subarray(0, length);
    return true;
  }

  ended(): void {
    this.#complete = true;
    this.#wakeReader();
  }

  /** Releases the headers, because the answer is a stream: it may last for hours, and nothing reads them any more. */
  forget(): void {
    this.headers = NONE;
  }

  /** Discards the body, including the rest that is still to arrive. */
  drop(): void {
    this.#dropped = true;
    this.#takeParts();
    if (this.#giving !== null) this.#wakeReader();
  }

  gone(): void {
    this.#gone = true;
    this.#parts = [];
    this.#wakeReader();
    this.signal.abort();
  }
}

/** The head of an earlier request that arrived in one read. */
export interface KnownHead {
  readonly head: Head;
  /** The bytes of the head, including the empty line. */
  readonly bytes: Buffer;
  /** Length as counted for the limit of heads, in bytes. */
  readonly countedBytes: number;
  readonly bodyBytes: number;
}

/** Number of heads kept for all connections together. The oldest is dropped first. */
const KNOWN_MOST = 256;

/** Parsed heads of recent requests, by their text. A client sends the same head with each request. */
export class KnownHeads {
  readonly #known = new Map<string, KnownHead>();

  /** `text`: the head including the empty line, its bytes as Latin-1. */
  get(text: string): KnownHead | undefined {
    return this.#known.get(text);
  }

  add(text: string, known: KnownHead): void {
    if (this.#known.size >= KNOWN_MOST) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(text, known);
  }
}
