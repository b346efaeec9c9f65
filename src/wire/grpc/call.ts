/** One call: messages in and out until the call is ended here, by the client or by its deadline. */
import type { Expiring } from "../http/deadlines.ts";
import type { HeldBytes } from "../http/sink.ts";
import type { WaitingBytes } from "../http/waiting-bytes.ts";
import { lastValue, type RequestHead } from "../http2/fields.ts";
import { Http2Code, writeUint32 } from "../http2/frames.ts";
import { encodeFields, type HeaderField } from "../http2/hpack.ts";
import type { Http2Line } from "../http2/line.ts";
import type { Http2Stream, StreamReceiver } from "../http2/stream.ts";
import { ACCEPTED, type GrpcEncoding, packedMessage } from "./compression.ts";
import type { CallDeadlines } from "./deadlines.ts";
import { IncomingMessages, type IncomingReceiver, type IncomingShared, MESSAGE_HEAD_BYTES } from "./incoming.ts";
import { GRPC_OK, type GrpcStatus, headOf, onlyTrailers, trailersOf } from "./status.ts";

/** What a call brings to the one who answers it. Nothing comes after `cancelled`, or after the call was ended. */
export interface CallHandler {
  /**
   * The bytes are the handler's to keep. The next message, or the end of the messages, follows when a promise has settled;
   * meanwhile the client is not let send more.
   */
  message(bytes: Uint8Array): void | Promise<void>;
  halfClosed(): void;
  /** The client is gone, wants no more, or its time is over. */
  cancelled(): void;
}

/** What all calls of a server share. */
export interface CallAround extends IncomingShared {
  readonly deadlines: CallDeadlines;
  /** Bytes of answers that wait for clients, of all calls. */
  readonly waiting: WaitingBytes;
  /** Receives errors that were thrown and that nobody expects. */
  readonly broken: (why: unknown) => void;
}

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

export class GrpcCall implements StreamReceiver, Expiring, IncomingReceiver {
  /** How answers are packed; to be said before the first one. */
  encoding: GrpcEncoding | null = null;
  readonly #stream: Http2Stream;
  readonly #head: RequestHead;
  readonly #around: CallAround;
  readonly #incoming: IncomingMessages;
  /** The connection that it came over. */
  readonly line: Http2Line;
  #handler: CallHandler | null = null;
  #forget: (() => void) | null = null;
  #begun = false;
  #over = false;
  #faults: CallFaults | null = null;
  /** The handler wants no more for now. */
  #pausedByHandler = false;
  /** The next bytes are to wait until a message is read. */
  #pausedByReading = false;

  /** `given`: how requests that are packed are packed. */
  constructor(stream: Http2Stream, head: RequestHead, given: GrpcEncoding | null, around: CallAround, line: Http2Line) {
    this.line = line;
    this.#stream = stream;
    stream.held = around.waiting;
    this.#head = head;
    this.#around = around;
    this.#incoming = new IncomingMessages(around, given, this);
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
    return lastValue(this.#head.fields, name) ?? null;
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

  deliver(bytes: Uint8Array): void | Promise<void> {
    return this.#handler?.message(bytes);
  }

  allDelivered(): void {
    this.#handler?.halfClosed();
  }

  waits(isWaiting: boolean): void {
    this.#pausedByReading = isWaiting;
    if (isWaiting) this.#stream.pause();
    else this.#goOn();
  }

  /** Ends the call, and tells the handler that it is over. */
  refuse(status: GrpcStatus): void {
    const handler = this.#handler;
    this.end(status);
    handler?.cancelled();
  }

  /** Ends the call after something threw that nobody expects. */
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

  /** The client may send no more for a while, except what it was allowed to before. */
  pause(): void {
    this.#pausedByHandler = true;
    this.#stream.pause();
  }

  resume(): void {
    this.#pausedByHandler = false;
    this.#goOn();
  }

  #goOn(): void {
    if (!this.#pausedByHandler && !this.#pausedByReading) this.#stream.resume();
  }

  expire(): void {
    const handler = this.#handler;
    // What stands before the status may never leave.
    if (this.#faults !== null) this.drop();
    else this.end({ code: "DEADLINE_EXCEEDED", message: "Deadline Exceeded" });
    handler?.cancelled();
  }

  data(bytes: Uint8Array): void {
    this.#incoming.data(bytes);
  }

  ended(): void {
    this.#incoming.end();
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

  #close(): void {
    this.#over = true;
    this.#handler = null;
    this.#forget?.();
    this.#incoming.close();
  }
}

function writeHead(into: Uint8Array, length: number): void {
  into[0] = 0;
  writeUint32(into, 1, length);
}
