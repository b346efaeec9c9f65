/** What happens in one call? Messages in and out, each behind five bytes, until it is ended here, by the client or by its time. */
import type { Expiring } from "../http/deadlines.ts";
import type { HeldBytes } from "../http/sink.ts";
import type { WaitingBytes } from "../http/waiting-bytes.ts";
import type { RequestHead } from "../http2/fields.ts";
import { Http2Code, readUint32, writeUint32 } from "../http2/frames.ts";
import { encodeFields, type HeaderField } from "../http2/hpack.ts";
import type { Http2Line } from "../http2/line.ts";
import type { Http2Stream, StreamReceiver } from "../http2/stream.ts";
import { ACCEPTED, type GrpcEncoding, packedMessage, unpackedMessage } from "./compression.ts";
import type { CallDeadlines } from "./deadlines.ts";
import { GRPC_OK, type GrpcStatus, headOf, onlyTrailers, trailersOf } from "./status.ts";

/** What a call brings to the one who answers it. Nothing comes after `cancelled`, or after the call was ended. */
export interface CallHandler {
  /** The bytes are the handler's to keep. */
  message(bytes: Uint8Array): void;
  halfClosed(): void;
  /** The client is gone, wants no more, or its time is over. */
  cancelled(): void;
}

/** What all calls of a server share. */
export interface CallAround {
  readonly deadlines: CallDeadlines;
  /** Largest message, bytes. */
  readonly messageBytes: number;
  /** Bytes of messages that have not come whole, of all calls, and how many there may be. */
  readonly held: { bytes: number; readonly most: number };
  /** Bytes of answers that wait for clients, of all calls. */
  readonly waiting: WaitingBytes;
  /** Told of what was thrown. */
  readonly broken: (why: unknown) => void;
}

/** Before each message: whether it is packed, and its length. Whoever makes one leaves this room. */
export const MESSAGE_HEAD_BYTES = 5;

const headFields = (encoding: GrpcEncoding | null): HeaderField[] => [
  ...(encoding === null ? [] : [["grpc-encoding", encoding] as const]),
  ["grpc-accept-encoding", ACCEPTED],
];
const HEADS: Readonly<Record<GrpcEncoding | "plain", Buffer>> = {
  plain: headOf(headFields(null)),
  gzip: headOf(headFields("gzip")),
  deflate: headOf(headFields("deflate")),
};

/** What a plan of faults does with the answer. */
export interface CallFaults {
  readonly queued: number;
  begin(fields: readonly HeaderField[]): void;
  message(bytes: Buffer): void;
  end(status: GrpcStatus): void;
  drained(): void;
  gone(): void;
}

/** Parts of so many bytes are put together when the last has come. */
const TOGETHER_BYTES = 262_144;
const GROWTH = 4;

export class GrpcCall implements StreamReceiver, Expiring {
  /** How answers are packed; to be said before the first one. */
  encoding: GrpcEncoding | null = null;
  readonly #stream: Http2Stream;
  readonly #head: RequestHead;
  readonly #around: CallAround;
  readonly #given: GrpcEncoding | null;
  /** The connection that it came over. */
  readonly line: Http2Line;
  #handler: CallHandler | null = null;
  #forget: (() => void) | null = null;
  #parts: Uint8Array[] = [];
  /** In place of the parts, where they are many bytes; more than have come. */
  #large: Buffer | null = null;
  #bytes = 0;
  #begun = false;
  #over = false;
  #faults: CallFaults | null = null;

  /** `given`: how requests that are packed are packed. */
  constructor(stream: Http2Stream, head: RequestHead, given: GrpcEncoding | null, around: CallAround, line: Http2Line) {
    this.line = line;
    this.#stream = stream;
    stream.held = around.waiting;
    this.#head = head;
    this.#given = given;
    this.#around = around;
  }

  get path(): string {
    return this.#head.path;
  }

  /** Bytes that wait for the client. */
  get queued(): number {
    return this.#stream.queued + (this.#faults?.queued ?? 0);
  }

  get over(): boolean {
    return this.#over;
  }

  /** The last value of the name; null: there is none. */
  metadata(name: string): string | null {
    return this.#head.fields.findLast(([one]) => one === name)?.[1] ?? null;
  }

  /** In the order in which they came; names may come several times. */
  get allMetadata(): readonly (readonly [name: string, value: string])[] {
    return this.#head.fields;
  }

  /** `timeoutUs` null: it may take any time. */
  begin(handler: CallHandler, timeoutUs: number | null): void {
    if (this.#over) return;
    this.#handler = handler;
    if (timeoutUs !== null) this.#forget = this.#around.deadlines.watch(this, timeoutUs);
  }

  /**
   * Has what is answered disturbed; before that. `lost` is to be called where nobody is there for more, `held` is to be told
   * of all that waits.
   */
  disturb(make: (stream: Http2Stream, held: HeldBytes, lost: () => void) => CallFaults): void {
    if (this.#over) return;
    this.#stream.held = null;
    this.#faults = make(this.#stream, this.#around.waiting, () => {
      const handler = this.#handler;
      this.#close();
      handler?.cancelled();
    });
    this.#faults.begin(headFields(this.encoding));
  }

  /** An answer of HTTP in place of the call's. */
  answerAsHttp(fields: readonly HeaderField[], body: string): void {
    if (this.#over) return;
    this.#close();
    this.#stream.head(encodeFields(fields), false);
    this.#stream.write(Buffer.from(body));
    this.#stream.end();
  }

  /** A message behind `MESSAGE_HEAD_BYTES` of room, which are filled in, `length` bytes with it; they may change afterwards. */
  send(message: Buffer, length = message.length): void {
    if (this.#over) return;
    this.#begin();
    if (this.encoding !== null) this.#sendPacked(message, length, this.encoding);
    else {
      writeHead(message, length - MESSAGE_HEAD_BYTES);
      if (this.#faults === null) this.#stream.write(message, length);
      else this.#faults.message(Buffer.from(message.subarray(0, length)));
    }
    this.#boundWaiting();
  }

  #sendPacked(message: Buffer, length: number, encoding: GrpcEncoding): void {
    const packed = packedMessage(message.subarray(MESSAGE_HEAD_BYTES, length), encoding);
    const head = Buffer.from([1, 0, 0, 0, 0]);
    head.writeUInt32BE(packed.length, 1);
    const bytes = Buffer.concat([head, packed]);
    if (this.#faults === null) this.#stream.write(bytes);
    else this.#faults.message(bytes);
  }

  /** As `send`, of a large message in parts that do not change. */
  sendParts(parts: readonly Buffer[]): void {
    if (this.#over) return;
    if (this.encoding !== null || this.#faults !== null) {
      this.send(Buffer.concat(parts));
      return;
    }
    this.#begin();
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    writeHead(parts[0]!, bytes - MESSAGE_HEAD_BYTES);
    for (const part of parts) this.#stream.write(part, part.length, true);
    this.#boundWaiting();
  }

  /** Where too much waits for all clients, a call that adds to it gives way; others go on. */
  #boundWaiting(): void {
    if (!this.#around.waiting.exceeded || this.queued === 0) return;
    const handler = this.#handler;
    this.drop();
    handler?.cancelled();
  }

  /** The answer's head leaves before the first message. */
  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.#faults === null) this.#stream.head(HEADS[this.encoding ?? "plain"], false);
  }

  end(status: GrpcStatus = GRPC_OK): void {
    if (this.#over) return;
    this.#close();
    if (this.#faults !== null) this.#faults.end(status);
    else if (this.#begun) this.#stream.end(trailersOf(status));
    else this.#stream.head(onlyTrailers(status), true);
  }

  /** Something here threw that nobody knows. */
  fail(why: unknown): void {
    this.#around.broken(why);
    this.end({ code: "UNKNOWN", message: "Unexpected error in RPC handling" });
  }

  /** Without a status: the client reads too little. */
  drop(): void {
    if (this.#over) return;
    this.#close();
    this.#faults?.gone();
    this.#stream.reset(Http2Code.Calm);
  }

  /** The client may send no more for a while, but what it was allowed to before. */
  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  expire(): void {
    const handler = this.#handler;
    // What stands before the status may never leave.
    if (this.#faults !== null) this.drop();
    else this.end({ code: "DEADLINE_EXCEEDED", message: "Deadline Exceeded" });
    handler?.cancelled();
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return;
    if (this.#bytes > 0) {
      this.#hold(bytes);
      if (this.#over || !this.#isWhole() || this.#over) return;
      const all = this.#large ?? Buffer.concat(this.#parts);
      const held = this.#bytes;
      this.#release();
      this.#read(all.subarray(0, held));
    } else this.#read(bytes);
  }

  ended(): void {
    if (this.#over) return;
    if (this.#bytes > 0) this.end({ code: "INTERNAL", message: "Incomplete message" });
    else this.#told(() => this.#handler?.halfClosed());
  }

  drained(): void {
    this.#faults?.drained();
  }

  gone(): void {
    this.#faults?.gone();
    if (this.#over) return;
    const handler = this.#handler;
    this.#close();
    handler?.cancelled();
  }

  /** Messages, and the beginning of one. */
  #read(bytes: Uint8Array): void {
    let at = 0;
    while (!this.#over && bytes.length - at >= MESSAGE_HEAD_BYTES) {
      const length = lengthAt(bytes, at);
      if (length > this.#around.messageBytes) {
        this.#tooLarge(length);
        return;
      }
      const end = at + MESSAGE_HEAD_BYTES + length;
      if (end > bytes.length) break;
      this.#message(bytes[at]!, bytes.subarray(at + MESSAGE_HEAD_BYTES, end));
      at = end;
    }
    if (!this.#over && at < bytes.length) this.#hold(bytes.subarray(at));
  }

  /** Whether what is held has a whole message in it. One that is too large is refused. */
  #isWhole(): boolean {
    if (this.#bytes < MESSAGE_HEAD_BYTES) return false;
    if (this.#large === null && this.#parts[0]!.length < MESSAGE_HEAD_BYTES) this.#parts = [Buffer.concat(this.#parts)];
    const length = lengthAt(this.#large ?? this.#parts[0]!, 0);
    if (length > this.#around.messageBytes) this.#tooLarge(length);
    return this.#bytes >= MESSAGE_HEAD_BYTES + length;
  }

  #message(flag: number, bytes: Uint8Array): void {
    if (flag === 0) {
      this.#told(() => this.#handler?.message(bytes));
      return;
    }
    if (flag !== 1 || this.#given === null) {
      this.end({ code: "INTERNAL", message: "Compressed message without a known grpc-encoding" });
      return;
    }
    const plain = unpackedMessage(bytes, this.#given, this.#around.messageBytes);
    if (plain === "large") this.#tooLarge(this.#around.messageBytes + 1);
    else if (plain === null) this.end({ code: "INTERNAL", message: "Failed to decompress message" });
    else this.#told(() => this.#handler?.message(plain));
  }

  #tooLarge(bytes: number): void {
    const message = `Received message larger than max (${bytes} vs. ${this.#around.messageBytes})`;
    const handler = this.#handler;
    this.end({ code: "RESOURCE_EXHAUSTED", message });
    handler?.cancelled();
  }

  #told(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.fail(error);
    }
  }

  #hold(bytes: Uint8Array): void {
    const { held } = this.#around;
    if (this.#large === null && this.#bytes + bytes.length <= TOGETHER_BYTES) this.#parts.push(bytes);
    else this.#gather(bytes);
    this.#bytes += bytes.length;
    held.bytes += bytes.length;
    if (held.bytes <= held.most) return;
    const handler = this.#handler;
    this.end({ code: "RESOURCE_EXHAUSTED", message: `messages of more than ${held.most} bytes are under way` });
    handler?.cancelled();
  }

  /** A large message is put together as it comes: in one go at its end that would hold others up. */
  #gather(bytes: Uint8Array): void {
    const needed = this.#bytes + bytes.length;
    const before = this.#large;
    if (before === null || before.length < needed) {
      // No more than what has come, four times: what was said may never come.
      const first = before ?? this.#parts[0] ?? bytes;
      const said = first.length < MESSAGE_HEAD_BYTES ? needed : MESSAGE_HEAD_BYTES + lengthAt(first, 0);
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(said, GROWTH * needed)));
      let at = 0;
      for (const part of before === null ? this.#parts : [before.subarray(0, this.#bytes)]) {
        larger.set(part, at);
        at += part.length;
      }
      this.#parts = [];
      this.#large = larger;
    }
    this.#large!.set(bytes, this.#bytes);
  }

  #release(): void {
    this.#around.held.bytes -= this.#bytes;
    this.#parts = [];
    this.#large = null;
    this.#bytes = 0;
  }

  #close(): void {
    this.#over = true;
    this.#handler = null;
    this.#forget?.();
    this.#release();
  }
}

function writeHead(into: Uint8Array, length: number): void {
  into[0] = 0;
  writeUint32(into, 1, length);
}

/** What the head of a message says that follows it. */
const lengthAt = (bytes: Uint8Array, at: number): number => readUint32(bytes, at + 1);
