/**
 * Where in the bytes of a connection do requests begin and end? llhttp, as uvicorn reads them through httptools 0.9: the
 * same parser with the same settings, so that what it refuses is refused here. undici ships it as WebAssembly.
 */
import { type Head, HeaderFields, type KnownHead, KnownHeads } from "./request.ts";

/** Told in the order of the bytes, while they are fed. Parts are views of what was fed. */
export interface ParserEvents {
  onHead(head: Head): void;
  onBody(part: Uint8Array): void;
  /** True: enough for now, what is behind this request is fed later. */
  onComplete(): boolean;
  /** The last request asks for another protocol: what is behind its head is passed over, its body too. */
  onUpgrade(): void;
}

export enum Fed {
  Fine,
  /** `read` bytes were; the others are to be fed again. */
  Enough,
  /** Not HTTP: the parser takes nothing more. */
  Wrong,
  /** The head is longer, or has more lines, than is allowed. */
  TooLarge,
}

/** A line with its end costs so much besides name and value. */
const LINE_BYTES = 4;
/** Each takes two strings: a head of many empty lines would be far larger in memory than on the wire. */
const LINES_MOST = 10_000;
/** Longer ones `httptools.parse_url` refuses. */
const URL_MOST = 65_535;
/** Fed to WebAssembly at once. */
const PIECE_BYTES = 65_536;
/** Most heads are shorter. */
const FRONT_BYTES = 512;
const HEAD_END = "\r\n\r\n";
const knownHeads = new KnownHeads();
const knownHeadsAsSent = new KnownHeads();

const NOTHING = Buffer.alloc(0);

const REQUEST = 1;
const OK = 0;
const PAUSED = 21;
const PAUSED_UPGRADE = 22;
/** A callback's refusal. */
const REFUSED = -1;

interface Llhttp {
  readonly memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): number;
  llhttp_alloc(type: number): number;
  llhttp_free(parser: number): void;
  llhttp_execute(parser: number, at: number, length: number): number;
  llhttp_resume(parser: number): void;
  llhttp_resume_after_upgrade(parser: number): void;
  /** Where the last call stopped. */
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_method(parser: number): number;
  llhttp_get_http_major(parser: number): number;
  llhttp_get_http_minor(parser: number): number;
  llhttp_method_name(method: number): number;
  llhttp_set_lenient_data_after_close(parser: number, on: number): void;
}

/** Not imported: every byte of what a CommonJS module exports would become a named export, 12 MB in all. */
const wasm: Uint8Array<ArrayBuffer> = require("undici/lib/llhttp/llhttp-wasm.js");

/** The parser whose bytes llhttp reads, to which its callbacks go. null: llhttp reads none. */
let current: Parser | null = null;

const { exports } = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
  env: {
    wasm_on_message_begin: () => current!.begin(),
    wasm_on_url: (_: number, at: number, length: number) => current!.url(at, length),
    wasm_on_status: () => OK,
    wasm_on_header_field: (_: number, at: number, length: number) => current!.name(at, length),
    wasm_on_header_value: (_: number, at: number, length: number) => current!.value(at, length),
    wasm_on_headers_complete: (_: number, _status: number, upgrade: number, keepAlive: number) =>
      current!.headComplete(upgrade, keepAlive !== 0),
    wasm_on_body: (_: number, at: number, length: number) => current!.body(at, length),
    wasm_on_message_complete: () => current!.complete(),
  },
});
const llhttp = exports as unknown as Llhttp;
llhttp._initialize();
const pieceAt = llhttp.malloc(PIECE_BYTES);
/** llhttp's memory; made anew when it has grown, which empties the views of it. */
let memory = new Uint8Array(llhttp.memory.buffer);
const methods = new Map<number, string>();

/** One connection's. */
export class Parser {
  /** Bytes of those fed last that were read, where that was enough. */
  read = 0;
  readonly #events: ParserEvents;
  /** The head of the last request that was known. */
  #last: KnownHead | null = null;
  readonly #headBytesMost: number;
  readonly #asSent: boolean;
  readonly #known: KnownHeads;
  /** In WebAssembly; 0: freed. */
  #at: number;
  /** The piece that is being read. */
  #piece: Buffer = NOTHING;
  /** Beginning of that piece as text, once something of it is wanted: cutting a text is free, making one is not. */
  #front: string | null = null;
  #freed = false;
  #tooLarge = false;
  /** All that was fed are whole messages, and one may follow: only then may llhttp be passed by. */
  #between = true;
  /** Heads of the piece that is being read, the last of them, and bytes of bodies. */
  #heads = 0;
  #head: Head | null = null;
  #bodyBytes = 0;
  /** By what the last head says, another message may follow. */
  #goesOn = true;
  /** Bytes so far of the head that is being read, or was last. */
  #headBytes = 0;
  #inHead = false;
  #target = "";
  #names: string[] = [];
  #values: string[] = [];
  /** The last span was a name, so that more of it may come. */
  #inName = false;

  /**
   * `headBytesMost`: limit on the request line and the header lines, in bytes. `asSent`: for a proxy. Keeps the request
   * target as it was sent (`*`, absolute form, bytes above 0x7f, fragment), and reads a request with `Upgrade` like any
   * other, including its body and the requests after it, because the proxy does not switch protocols.
   */
  constructor(events: ParserEvents, headBytesMost: number, asSent = false) {
    this.#events = events;
    this.#headBytesMost = headBytesMost;
    this.#asSent = asSent;
    this.#known = asSent ? knownHeadsAsSent : knownHeads;
    this.#at = llhttp.llhttp_alloc(REQUEST);
    // What was sent behind a request with `Connection: close` is passed over, not refused.
    llhttp.llhttp_set_lenient_data_after_close(this.#at, 1);
  }

  /** Bytes that are kept of a head whose rest is still to come. */
  get unfinishedBytes(): number {
    return this.#inHead ? this.#headBytes : 0;
  }

  feed(bytes: Buffer): Fed {
    if (this.#between && this.#feedKnown(bytes)) return Fed.Fine;
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
      const fed = this.#feedPiece(
        from === 0 && bytes.length <= PIECE_BYTES ? bytes : bytes.subarray(from, from + PIECE_BYTES),
      );
      if (fed === Fed.Fine) continue;
      this.read += from;
      return fed;
    }
    return Fed.Fine;
  }

  /** A request whose head came before, and nothing else. */
  #feedKnown(bytes: Buffer): boolean {
    const known = this.#again(bytes) ?? this.#cameBefore(bytes);
    if (known === null || this.#freed || known.countedBytes > this.#headBytesMost) return false;
    const headBytes = known.bytes.length;
    if (headBytes + known.bodyBytes !== bytes.length) return false;
    this.#front = null;
    this.#last = known;
    this.#events.onHead(known.head);
    if (known.bodyBytes > 0) this.#events.onBody(bytes.subarray(headBytes));
    this.#events.onComplete();
    return true;
  }

  /** Known where the last head of this connection came again: comparing bytes takes a third of making a text of them. */
  #again(bytes: Buffer): KnownHead | null {
    const last = this.#last;
    if (last === null || last.bytes.length + last.bodyBytes !== bytes.length) return null;
    const { length } = last.bytes;
    return bytes.compare(last.bytes, 0, length, 0, length) === 0 ? last : null;
  }

  #cameBefore(bytes: Buffer): KnownHead | null {
    this.#front = bytes.toString("latin1", 0, FRONT_BYTES);
    const end = this.#front.indexOf(HEAD_END);
    return end === -1 ? null : (this.#known.get(this.#front.substring(0, end + HEAD_END.length)) ?? null);
  }

  #learn(front: string, piece: Buffer): void {
    const headBytes = front.indexOf(HEAD_END) + HEAD_END.length;
    // Only of a body that was sent as it is does the length fit.
    if (this.#heads !== 1 || headBytes < HEAD_END.length || headBytes + this.#bodyBytes !== piece.length) return;
    const text = front.substring(0, headBytes);
    const facts = { head: this.#head!, countedBytes: this.#headBytes, bodyBytes: this.#bodyBytes };
    this.#known.add(text, { ...facts, bytes: Buffer.from(text, "latin1") });
  }

  #feedPiece(piece: Buffer): Fed {
    if (this.#freed) return Fed.Fine;
    const begins = this.#between;
    this.#piece = piece;
    this.#heads = 0;
    this.#bodyBytes = 0;
    // A second piece would overwrite the one that is being read.
    if (current !== null) throw new Error("a parser was fed while llhttp reads for another");
    if (memory.length === 0) memory = new Uint8Array(llhttp.memory.buffer);
    memory.set(piece, pieceAt);
    current = this;
    let code: number;
    try {
      code = llhttp.llhttp_execute(this.#at, pieceAt, piece.length);
      if (code === OK && begins && this.#between && this.#front !== null) this.#learn(this.#front, piece);
    } finally {
      current = null;
      // A connection lives long, and may be silent: what it sent last is not kept for it.
      this.#piece = NOTHING;
      this.#front = null;
      this.#head = null;
    }
    // What follows a request for another protocol is not looked at, in this piece.
    if (code === PAUSED_UPGRADE || code === PAUSED) this.read = llhttp.llhttp_get_error_pos(this.#at) - pieceAt;
    if (code === PAUSED_UPGRADE) llhttp.llhttp_resume_after_upgrade(this.#at);
    else if (code === PAUSED) llhttp.llhttp_resume(this.#at);
    if (this.#freed) this.#release();
    if (code === PAUSED_UPGRADE && this.#asSent) return this.#feedAfter(piece);
    if (code === PAUSED_UPGRADE) this.#events.onUpgrade();
    if (code === OK || code === PAUSED_UPGRADE) return Fed.Fine;
    if (code === PAUSED) return Fed.Enough;
    return this.#tooLarge ? Fed.TooLarge : Fed.Wrong;
  }

  /** Feeds the rest of the piece, after a request with `Upgrade`. */
  #feedAfter(piece: Buffer): Fed {
    const before = this.read;
    if (before >= piece.length) return Fed.Fine;
    const fed = this.#feedPiece(piece.subarray(before));
    this.read += before;
    return fed;
  }

  /** Once; nothing is fed afterwards. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    if (current !== this) this.#release();
  }

  #release(): void {
    if (this.#at !== 0) llhttp.llhttp_free(this.#at);
    this.#at = 0;
  }

  /** For llhttp, as all below. */
  begin(): number {
    this.#between = false;
    this.#inHead = true;
    this.#headBytes = 0;
    this.#target = "";
    this.#names = [];
    this.#values = [];
    this.#inName = false;
    return OK;
  }

  url(at: number, length: number): number {
    this.#target += this.#text(at, length);
    return this.#grown(length);
  }

  name(at: number, length: number): number {
    const text = this.#text(at, length);
    if (this.#inName) this.#names[this.#names.length - 1] += text;
    else this.#names.push(text);
    this.#inName = true;
    return this.#grown(length + LINE_BYTES);
  }

  value(at: number, length: number): number {
    const text = this.#text(at, length);
    if (this.#inName) this.#values.push(text);
    else this.#values[this.#values.length - 1] += text;
    this.#inName = false;
    return this.#grown(length);
  }

  headComplete(upgrade: number, keepAlive: boolean): number {
    const target = this.#asSent ? targetAsSent(this.#target) : requestTarget(this.#target);
    if (target === null) return REFUSED;
    const [major, minor] = [llhttp.llhttp_get_http_major(this.#at), llhttp.llhttp_get_http_minor(this.#at)];
    const version = major === 1 && minor === 1 ? "1.1" : `${major}.${minor}`;
    this.#head = {
      method: methodName(llhttp.llhttp_get_method(this.#at)),
      target,
      version,
      fields: new HeaderFields(this.#names, this.#values),
      keepAlive: keepAlive && version !== "1.0",
    };
    this.#heads++;
    this.#inHead = false;
    const passesOver = upgrade !== 0 && !this.#asSent;
    this.#goesOn = keepAlive && !passesOver;
    this.#events.onHead(this.#head);
    this.#names = [];
    this.#values = [];
    return passesOver ? 1 : OK;
  }

  body(at: number, length: number): number {
    const from = at - pieceAt;
    this.#bodyBytes += length;
    this.#events.onBody(this.#piece.subarray(from, from + length));
    return OK;
  }

  complete(): number {
    this.#between = this.#goesOn;
    const enough = this.#events.onComplete();
    // Behind a last request llhttp is to go on by itself: it passes over what comes.
    return enough && this.#goesOn ? PAUSED : OK;
  }

  #text(at: number, length: number): string {
    const from = at - pieceAt;
    const to = from + length;
    if (to > FRONT_BYTES) return this.#piece.toString("latin1", from, to);
    this.#front ??= this.#piece.toString("latin1", 0, FRONT_BYTES);
    return this.#front.substring(from, to);
  }

  #grown(bytes: number): number {
    this.#headBytes += bytes;
    this.#tooLarge = this.#headBytes > this.#headBytesMost || this.#names.length > LINES_MOST;
    return this.#tooLarge ? REFUSED : OK;
  }
}

const targetAsSent = (url: string): string | null => (url.length > URL_MOST ? null : url);

/** Path and query, as `httptools.parse_url` finds them; null where it, or uvicorn over the result, fails. */
function requestTarget(url: string): string | null {
  if (url.length > URL_MOST) return null;
  const hash = url.indexOf("#");
  const text = hash === -1 ? url : url.slice(0, hash);
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return null;
  if (text.startsWith("/")) return text;
  if (text === "*") return "/*";
  const authority = text.indexOf("://");
  const path = authority === -1 ? -1 : text.indexOf("/", authority + 3);
  return path === -1 ? null : text.slice(path);
}

function methodName(method: number): string {
  let name = methods.get(method);
  if (name === undefined) {
    const at = llhttp.llhttp_method_name(method);
    const bytes = memory.subarray(at, at + 32);
    name = Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString("latin1");
    methods.set(method, name);
  }
  return name;
}
