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

/** The part of `Headers` that is used, with Starlette's reading: of two lines the first counts. */
export class HeaderFields {
  readonly #sent: readonly string[];
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  /** Names as they were sent; both lists are the fields' own from now on. */
  constructor(names: readonly string[], values: readonly string[]) {
    this.#sent = names;
    this.#names = names.map(small);
    this.#values = values;
  }

  /** Bytes as Latin-1; `name` in small letters. */
  get(name: string): string | null {
    const at = this.#names.indexOf(name);
    return at === -1 ? null : (this.#values[at] ?? "");
  }

  has(name: string): boolean {
    return this.#names.includes(name);
  }

  /** As `Headers` does; a name that was sent several times comes as often. */
  forEach(act: (value: string, name: string) => void): void {
    for (const [at, name] of this.#names.entries()) act(this.#values[at] ?? "", name);
  }

  /** Calls `act` for each line in the order sent. Names keep the letter case in which they were sent. */
  eachSent(act: (name: string, value: string) => void): void {
    for (const [at, name] of this.#sent.entries()) act(name, this.#values[at] ?? "");
  }
}

/** Names that came before, in small letters. */
const seen = new Map<string, string>();
const SEEN_MOST = 256;
const SEEN_CHARACTERS = 64;

function small(name: string): string {
  const known = seen.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  if (seen.size < SEEN_MOST && name.length <= SEEN_CHARACTERS) seen.set(name, lower);
  return lower;
}

/** Body that nobody reads, beyond which the connection is not read either; uvicorn's `HIGH_WATER_LIMIT`. */
const UNREAD_MOST = 65_536;

/** Bytes of a body that is given away as it comes, read in one turn of the event loop. */
const BURST_BYTES = 524_288;

const NONE = new HeaderFields([], []);

/** Shorter parts that come together are kept as one: a part costs more than its bytes, and a chunk may have one byte. */
const SHORT_PART_BYTES = 1024;
/** Memory of parts that are kept as one, at first and at most. */
const JOINED_FIRST_BYTES = 1024;
const JOINED_MOST_BYTES = 65_536;

/** Stops and goes on with reading what the client sends. */
export interface ReadControl {
  pause(): void;
  resume(): void;
  /** The body is wanted: uvicorn sends 100 Continue now. */
  wanted(): void;
}

type Told = (() => void) | { handleEvent(): void };

/** The part of `AbortSignal` that is used, which costs a microsecond less. */
class Left implements LeaveSignal {
  aborted = false;
  /** Most requests have one listener. */
  #told: Told | null = null;
  #others: Told[] | null = null;

  addEventListener(_: "abort", told: Told): void {
    if (this.#told === null) this.#told = told;
    else {
      this.#others ??= [];
      this.#others.push(told);
    }
  }

  abort(): void {
    this.aborted = true;
    const told = [this.#told, ...(this.#others ?? [])];
    this.#told = this.#others = null;
    for (const one of told)
      if (typeof one === "function") one();
      else one?.handleEvent();
  }
}

/** `R`: who answers it. */
export class IncomingRequest<R extends ReadControl = ReadControl> implements HttpRequest {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  headers: HeaderFields;
  readonly #scheme: "http" | "https";
  readonly #reading: R;
  readonly #unreadMost: number;
  #parts: Uint8Array[] = [];
  /** Memory of the last part, if that is several which came; null: it is one. */
  #joined: Uint8Array | null = null;
  #unread = 0;
  #complete = false;
  #gone = false;
  /** Nobody wants more of it. */
  #dropped = false;
  #paused = false;
  #wake: (() => void) | null = null;
  #giving: ((part: Uint8Array) => void) | null = null;
  /** What came, with what its parts cost besides. */
  #held = 0;
  /** Answers that there is no room; null: whoever reads it cannot. */
  crowdedOut: (() => void) | null = null;
  readonly signal = new Left();

  /** `unreadMost`: body that nobody reads, beyond which reading is paused. */
  constructor(
    { method, target, fields }: Head,
    scheme: "http" | "https",
    reading: R,
    unreadMost: number = UNREAD_MOST,
  ) {
    this.method = method;
    this.target = target;
    this.#scheme = scheme;
    this.headers = fields;
    this.#reading = reading;
    this.#unreadMost = unreadMost;
  }

  /** With a host that stands for any: only the path and the query were sent. */
  get url(): string {
    return `${this.#scheme}://localhost${this.target}`;
  }

  get reading(): R {
    return this.#reading;
  }

  /** The parts as they come. Fails when the client leaves. */
  get body(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  /** The whole body. Fails when the client leaves. */
  async bytes(): Promise<Uint8Array> {
    const whole = this.whole();
    if (whole !== null) return whole;
    this.#reading.wanted();
    const parts: Uint8Array[] = [];
    for await (const part of this.#read()) parts.push(part);
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }

  /**
   * Each part in the moment in which it comes, to be copied: its memory is free again then. The host would read megabytes
   * in one go: after BURST_BYTES it has to wait for the next `turn` of the event loop. Fails when the client leaves.
   */
  async give(to: (part: Uint8Array) => void, turn: () => Promise<void>): Promise<void> {
    this.#reading.wanted();
    for (const part of this.#taken()) to(part);
    let burst = 0;
    this.#giving = (part) => {
      to(part);
      burst += part.length;
      if (burst < BURST_BYTES || this.#paused) return;
      this.#paused = true;
      this.#reading.pause();
      void turn().then(() => {
        burst = 0;
        this.#go();
      });
    };
    while (!this.#complete && !this.#gone && !this.#dropped) await this.#more();
    this.#giving = null;
    if (!this.#complete) throw new Error("the client left");
  }

  /** The whole body, where it came at once; null: `bytes` is to be waited for. */
  whole(): Uint8Array | null {
    if (!this.#complete || this.#parts.length !== 1) return null;
    this.#reading.wanted();
    return this.#taken()[0]!;
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    this.#reading.wanted();
    try {
      for (;;) {
        if (this.#parts.length === 0 && !this.#complete && !this.#gone) await this.#more();
        if (this.#gone) throw new Error("the client left");
        yield* this.#taken();
        if (this.#complete && this.#parts.length === 0) return;
      }
    } finally {
      this.drop();
    }
  }

  #more(): Promise<void> {
    this.#go();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  #taken(): Uint8Array[] {
    const parts = this.#parts;
    this.#parts = [];
    this.#joined = null;
    this.#unread = 0;
    this.#go();
    return parts;
  }

  #go(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#reading.resume();
  }

  #rouse(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  /** Bytes that are kept of a small body whose rest is still to come. */
  get unfinishedBytes(): number {
    return this.#complete || this.#dropped || this.#gone || this.#held > SMALL_BODY_BYTES ? 0 : this.#held;
  }

  /** For the connection, as all below: no more of the body is kept. False: nobody can say so to the client. */
  giveWay(): boolean {
    if (this.crowdedOut === null) return false;
    this.crowdedOut();
    this.drop();
    return true;
  }

  /** More of the body came. False: nobody wants it. */
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
    if (this.#unread > this.#unreadMost && this.#wake === null && !this.#paused) {
      this.#paused = true;
      this.#reading.pause();
    }
    this.#rouse();
    return true;
  }

  /** Appends a short part to the last one. False: it is a part of its own. */
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
    this.#rouse();
  }

  /** A stream has begun, which may last for hours: nobody asks for the head any more. */
  forget(): void {
    this.headers = NONE;
  }

  /** What is there and what comes is thrown away. */
  drop(): void {
    this.#dropped = true;
    this.#taken();
    if (this.#giving !== null) this.#rouse();
  }

  gone(): void {
    this.#gone = true;
    this.#parts = [];
    this.#rouse();
    this.signal.abort();
  }
}

/** The head of a request that came in one piece. */
export interface KnownHead {
  readonly head: Head;
  /** With the empty line. */
  readonly bytes: Buffer;
  /** As the limit of a head counts them. */
  readonly countedBytes: number;
  readonly bodyBytes: number;
}

/** Heads kept for all connections together; the oldest goes first. */
const KNOWN_MOST = 256;

/** Heads that came lately, as they were parsed. A client sends the same head with each request. */
export class KnownHeads {
  readonly #known = new Map<string, KnownHead>();

  /** `text`: up to and with the empty line, bytes as Latin-1. */
  get(text: string): KnownHead | undefined {
    return this.#known.get(text);
  }

  add(text: string, known: KnownHead): void {
    if (this.#known.size >= KNOWN_MOST) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(text, known);
  }
}
