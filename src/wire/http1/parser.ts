/**
 * Finds requests in the bytes of a connection. Uses llhttp with the settings of httptools 0.9, which uvicorn uses, so that it
 * refuses the same input. undici ships llhttp as WebAssembly.
 */
import { type Head, HeaderFields, type KnownHead, KnownHeads } from "./request.ts";

/** Receives what the parser finds, in the order of the bytes, during `feed`. Parts are views of the bytes fed. */
export interface ParserEvents {
  onHead(head: Head): void;
  onBody(part: Uint8Array): void;
  /** Ends a request. Returns true to stop there; the caller feeds the bytes after it later. */
  onComplete(): boolean;
  /** Reports that the last request asks for another protocol. The bytes after its head are skipped, including its body. */
  onUpgrade(): void;
}

export enum FeedResult {
  Fine,
  /** Stopped after `read` bytes, because `onComplete` returned true. The others must be fed again. */
  Enough,
  /** Not HTTP. The parser accepts nothing more. */
  Wrong,
  /** The head is longer, or has more lines, than allowed. */
  TooLarge,
}

/** Bytes counted per header line in addition to name and value. */
const LINE_BYTES = 4;
/**
 * Largest number of header lines. Each needs two strings, so a head of many empty lines would be far larger in memory than on the
 * wire.
 */
const LINES_MOST = 10_000;
/** Longest URL that `httptools.parse_url` accepts. */
const URL_MOST = 65_535;
/** Size of the buffer in WebAssembly, and so of the pieces fed to it. */
const PIECE_BYTES = 65_536;
/** Bytes at the start of a piece that become one string, of which heads are slices. Most heads are shorter. */
const FRONT_BYTES = 512;
const HEAD_END = "\r\n\r\n";
const knownHeads = new KnownHeads();
const knownHeadsAsSent = new KnownHeads();

const NO_BYTES = Buffer.alloc(0);

const REQUEST = 1;
const OK = 0;
const PAUSED = 21;
const PAUSED_UPGRADE = 22;
/** Result of a callback that makes llhttp stop with an error. */
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
  /** Position in WebAssembly memory at which the last call stopped. */
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_method(parser: number): number;
  llhttp_get_http_major(parser: number): number;
  llhttp_get_http_minor(parser: number): number;
  llhttp_method_name(method: number): number;
  llhttp_set_lenient_data_after_close(parser: number, on: number): void;
}

/** Loaded by `require`, because an `import` of a CommonJS module makes a named export of each byte, which takes 12 MB. */
const wasm: Uint8Array<ArrayBuffer> = require("undici/lib/llhttp/llhttp-wasm.js");

/** The parser that receives llhttp's callbacks. null: llhttp is not running. */
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
/** llhttp's memory. Created anew when the memory has grown, because that empties existing views. */
let memory = new Uint8Array(llhttp.memory.buffer);
const methods = new Map<number, string>();

/** The parser of one connection. */
export class Parser {
  /** Number of bytes read by the last `feed` that returned `FeedResult.Enough`. */
  read = 0;
  readonly #events: ParserEvents;
  /** The last head that was already known. */
  #last: KnownHead | null = null;
  readonly #headBytesMost: number;
  readonly #asSent: boolean;
  readonly #known: KnownHeads;
  /** Address of llhttp's state in WebAssembly; 0 after it is freed. */
  #at: number;
  /** The piece that llhttp is reading. */
  #piece: Buffer = NO_BYTES;
  /** First bytes of that piece as a string, made when first needed: slices of a string are free, new strings are not. */
  #front: string | null = null;
  #freed = false;
  #tooLarge = false;
  /** True between requests, if another may follow. Only then may a known head bypass llhttp. */
  #isBetweenRequests = true;
  /** Number of heads in the piece being read, the last of them, and the bytes of bodies. */
  #heads = 0;
  #head: Head | null = null;
  #bodyBytes = 0;
  /** True if the last head allows another request on the connection. */
  #mayContinue = true;
  /** Bytes so far of the current head, or of the last one. */
  #headBytes = 0;
  #inHead = false;
  #target = "";
  #names: string[] = [];
  #values: string[] = [];
  /** True if the last span was a part of a name, so the next may continue it. */
  #inName = false;

  /**
   * `headBytesMost`: limit on the request line and the header lines, in bytes. `asSent`: for a proxy. Keeps the request
   * target as it was sent (`*`, absolute form, bytes above 0x7f, fragment). Reads a request with `Upgrade` like any other,
   * including its body and the requests after it, because the proxy does not switch protocols.
   */
  constructor(events: ParserEvents, headBytesMost: number, asSent = false) {
    this.#events = events;
    this.#headBytesMost = headBytesMost;
    this.#asSent = asSent;
    this.#known = asSent ? knownHeadsAsSent : knownHeads;
    this.#at = llhttp.llhttp_alloc(REQUEST);
    // Skips bytes after a request with `Connection: close`; llhttp would refuse them otherwise.
    llhttp.llhttp_set_lenient_data_after_close(this.#at, 1);
  }

  /** Bytes kept of a head whose rest has not arrived. */
  get unfinishedBytes(): number {
    return this.#inHead ? this.#headBytes : 0;
  }

  /** Parses bytes from the socket and calls the events. */
  feed(bytes: Buffer): FeedResult {
    if (this.#isBetweenRequests && this.#feedKnown(bytes)) return FeedResult.Fine;
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
      const fed = this.#feedPiece(
        from === 0 && bytes.length <= PIECE_BYTES ? bytes : bytes.subarray(from, from + PIECE_BYTES),
      );
      if (fed === FeedResult.Fine) continue;
      this.read += from;
      return fed;
    }
    return FeedResult.Fine;
  }

  /** Handles a request with a known head and a body that ends with the bytes. Returns false if the bytes are something else. */
  #feedKnown(bytes: Buffer): boolean {
    const known = this.#lastHeadIn(bytes) ?? this.#knownHeadIn(bytes);
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

  /** Returns the last known head if the bytes begin with it. Comparing bytes takes a third of the time of making a string. */
  #lastHeadIn(bytes: Buffer): KnownHead | null {
    const last = this.#last;
    if (last === null || last.bytes.length + last.bodyBytes !== bytes.length) return null;
    const { length } = last.bytes;
    return bytes.compare(last.bytes, 0, length, 0, length) === 0 ? last : null;
  }

  #knownHeadIn(bytes: Buffer): KnownHead | null {
    this.#front = bytes.toString("latin1", 0, FRONT_BYTES);
    const end = this.#front.indexOf(HEAD_END);
    return end === -1 ? null : (this.#known.get(this.#front.substring(0, end + HEAD_END.length)) ?? null);
  }

  #remember(front: string, piece: Buffer): void {
    const headBytes = front.indexOf(HEAD_END) + HEAD_END.length;
    // The length fits only if the body was sent as it is, without chunks.
    if (this.#heads !== 1 || headBytes < HEAD_END.length || headBytes + this.#bodyBytes !== piece.length) return;
    const text = front.substring(0, headBytes);
    const facts = { head: this.#head!, countedBytes: this.#headBytes, bodyBytes: this.#bodyBytes };
    this.#known.add(text, { ...facts, bytes: Buffer.from(text, "latin1") });
  }

  #feedPiece(piece: Buffer): FeedResult {
    if (this.#freed) return FeedResult.Fine;
    const begins = this.#isBetweenRequests;
    this.#piece = piece;
    this.#heads = 0;
    this.#bodyBytes = 0;
    // A second piece would overwrite the piece that llhttp is reading.
    if (current !== null) throw new Error("a parser was fed while llhttp reads the bytes of another");
    if (memory.length === 0) memory = new Uint8Array(llhttp.memory.buffer);
    memory.set(piece, pieceAt);
    current = this;
    let code: number;
    try {
      code = llhttp.llhttp_execute(this.#at, pieceAt, piece.length);
      if (code === OK && begins && this.#isBetweenRequests && this.#front !== null) this.#remember(this.#front, piece);
    } finally {
      current = null;
      // A connection may live long in silence, so its last bytes must not stay in memory.
      this.#piece = NO_BYTES;
      this.#front = null;
      this.#head = null;
    }
    // The rest of this piece is skipped after a request for another protocol.
    if (code === PAUSED_UPGRADE || code === PAUSED) this.read = llhttp.llhttp_get_error_pos(this.#at) - pieceAt;
    if (code === PAUSED_UPGRADE) llhttp.llhttp_resume_after_upgrade(this.#at);
    else if (code === PAUSED) llhttp.llhttp_resume(this.#at);
    if (this.#freed) this.#release();
    if (code === PAUSED_UPGRADE && this.#asSent) return this.#feedAfter(piece);
    if (code === PAUSED_UPGRADE) this.#events.onUpgrade();
    if (code === OK || code === PAUSED_UPGRADE) return FeedResult.Fine;
    if (code === PAUSED) return FeedResult.Enough;
    return this.#tooLarge ? FeedResult.TooLarge : FeedResult.Wrong;
  }

  /** Feeds the rest of the piece, after a request with `Upgrade`. */
  #feedAfter(piece: Buffer): FeedResult {
    const before = this.read;
    if (before >= piece.length) return FeedResult.Fine;
    const fed = this.#feedPiece(piece.subarray(before));
    this.read += before;
    return fed;
  }

  /** Frees llhttp's state. Nothing may be fed afterwards. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    if (current !== this) this.#release();
  }

  #release(): void {
    if (this.#at !== 0) llhttp.llhttp_free(this.#at);
    this.#at = 0;
  }

  /** Callback of llhttp, as are all methods below up to `complete`. */
  begin(): number {
    this.#isBetweenRequests = false;
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
    return this.#countHead(length);
  }

  name(at: number, length: number): number {
    const text = this.#text(at, length);
    if (this.#inName) this.#names[this.#names.length - 1] += text;
    else this.#names.push(text);
    this.#inName = true;
    return this.#countHead(length + LINE_BYTES);
  }

  value(at: number, length: number): number {
    const text = this.#text(at, length);
    if (this.#inName) this.#values.push(text);
    else this.#values[this.#values.length - 1] += text;
    this.#inName = false;
    return this.#countHead(length);
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
    this.#mayContinue = keepAlive && !passesOver;
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
    this.#isBetweenRequests = this.#mayContinue;
    const enough = this.#events.onComplete();
    // After the last request llhttp must continue, because it skips the bytes that follow.
    return enough && this.#mayContinue ? PAUSED : OK;
  }

  #text(at: number, length: number): string {
    const from = at - pieceAt;
    const to = from + length;
    if (to > FRONT_BYTES) return this.#piece.toString("latin1", from, to);
    this.#front ??= this.#piece.toString("latin1", 0, FRONT_BYTES);
    return this.#front.substring(from, to);
  }

  #countHead(bytes: number): number {
    this.#headBytes += bytes;
    this.#tooLarge = this.#headBytes > this.#headBytesMost || this.#names.length > LINES_MOST;
    return this.#tooLarge ? REFUSED : OK;
  }
}

const targetAsSent = (url: string): string | null => (url.length > URL_MOST ? null : url);

/** Returns path and query as `httptools.parse_url` finds them, or null if that function, or uvicorn with its result, fails. */
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
