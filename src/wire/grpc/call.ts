/** One gRPC call: passes messages in both directions until the server, the client or the deadline ends it. */
import type { TimedItem } from "../http/deadlines.ts";
import type { HeldBytes } from "../http/sink.ts";
import type { WaitingBytes } from "../http/waiting-bytes.ts";
import type { ConnectionHandle } from "../http2/connection-handle.ts";
import { lastValue, type RequestHead } from "../http2/fields.ts";
import { Http2Code, writeUint32 } from "../http2/frames.ts";
import { encodeFields, type HeaderField } from "../http2/hpack.ts";
import type { Http2Stream, StreamReceiver } from "../http2/stream.ts";
import { ACCEPTED, type GrpcEncoding, packedMessage } from "./compression.ts";
import type { CallDeadlines } from "./deadlines.ts";
import type { FaultyMessages } from "./faulty.ts";
import { IncomingMessages, type IncomingShared, MESSAGE_HEAD_BYTES } from "./incoming.ts";
import { GRPC_OK, type GrpcStatus, headOf, onlyTrailers, trailersOf } from "./status.ts";

/** The code that answers a call. Gets no further calls after `cancelled`, or after the call was ended. */
export interface CallHandler {
  /**
   * Handles a message of the client, and may keep its bytes. If a promise is returned, the next call of `message` or `halfClosed`
   * waits until the promise has resolved. Meanwhile the client's window does not grow.
   */
  message(bytes: Uint8Array): void | Promise<void>;
  /** Called after the last message, when the client has said that it sends no more. */
  halfClosed(): void;
  /** Called if the client left or cancelled, or if the deadline has passed. */
  cancelled(): void;
}

/** Parts that all calls of a server share. */
export interface CallShared extends IncomingShared {
  readonly deadlines: CallDeadlines;
  /** Counts the bytes of answers that clients do not read. */
  readonly waiting: WaitingBytes;
  /** Receives unexpected errors. */
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

export class GrpcCall implements StreamReceiver, TimedItem {
  /** Compression of answers; null for none. Must be set before the first answer. */
  encoding: GrpcEncoding | null = null;
  readonly #incoming: IncomingMessages;
  #handler: CallHandler | null = null;
  #forget: (() => void) | null = null;
  #begun = false;
  #over = false;
  #faults: FaultyMessages | null = null;
  /** True while the handler wants no more messages. */
  #pausedByHandler = false;
  /** True while the next bytes must wait until a message has been read. */
  #pausedByReading = false;

  /** `requestEncoding`: compression of the request's messages that are marked as compressed. */
  constructor(
    private readonly stream: Http2Stream,
    private readonly head: RequestHead,
    requestEncoding: GrpcEncoding | null,
    private readonly shared: CallShared,
    readonly connection: ConnectionHandle,
  ) {
    stream.held = shared.waiting;
    this.#incoming = new IncomingMessages(shared, requestEncoding, this);
  }

  get path(): string {
    return this.head.path;
  }

  /** Bytes that wait to be sent to the client. */
  get queued(): number {
    return this.stream.queued + (this.#faults?.queued ?? 0);
  }

  get over(): boolean {
    return this.#over;
  }

  /** Returns the last value of a metadata name, or null without one. */
  metadata(name: string): string | null {
    return lastValue(this.head.fields, name) ?? null;
  }

  /** All metadata in the order received. A name may occur several times. */
  get allMetadata(): readonly (readonly [name: string, value: string])[] {
    return this.head.fields;
  }

  /** Starts the call. `timeoutUs` null: without a deadline. */
  begin(handler: CallHandler, timeoutUs: number | null): void {
    if (this.#over) return;
    this.#handler = handler;
    if (timeoutUs !== null) this.#forget = this.shared.deadlines.watch(this, timeoutUs);
  }

  /**
   * Lets a fault plan disturb the answer. Must be called before the answer begins. `make` gets a function to call if nothing more
   * can be sent, and the counter of waiting bytes.
   */
  disturb(make: (stream: Http2Stream, held: HeldBytes, lost: () => void) => FaultyMessages): void {
    if (this.#over) return;
    this.stream.held = null;
    this.#faults = make(this.stream, this.shared.waiting, () => {
      const handler = this.#handler;
      this.#close();
      handler?.cancelled();
    });
    this.#faults.begin(headFields(this.encoding));
  }

  /** Sends a plain HTTP answer instead of a gRPC answer. */
  answerAsHttp(fields: readonly HeaderField[], body: string): void {
    if (this.#over) return;
    this.#close();
    this.stream.head(encodeFields(fields), false);
    this.stream.write(Buffer.from(body));
    this.stream.end();
  }

  /**
   * Sends a message of `length` bytes, which include `MESSAGE_HEAD_BYTES` of room at the start. The room is filled in here. The
   * caller may reuse the buffer.
   */
  send(message: Buffer, length = message.length): void {
    if (this.#over) return;
    this.#begin();
    if (this.encoding !== null) this.#sendPacked(message, length, this.encoding);
    else {
      writeHead(message, length - MESSAGE_HEAD_BYTES);
      if (this.#faults === null) this.stream.write(message, length);
      else this.#faults.message(Buffer.from(message.subarray(0, length)));
    }
    this.#boundWaiting();
  }

  #sendPacked(message: Buffer, length: number, encoding: GrpcEncoding): void {
    const packed = packedMessage(message.subarray(MESSAGE_HEAD_BYTES, length), encoding);
    const bytes = Buffer.concat([Buffer.of(1, 0, 0, 0, 0), packed]);
    writeUint32(bytes, 1, packed.length);
    if (this.#faults === null) this.stream.write(bytes);
    else this.#faults.message(bytes);
  }

  /** Like `send`, for a large message in parts. The parts must not change afterwards. */
  sendParts(parts: readonly Buffer[]): void {
    if (this.#over) return;
    if (this.encoding !== null || this.#faults !== null) {
      this.send(Buffer.concat(parts));
      return;
    }
    this.#begin();
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    writeHead(parts[0]!, bytes - MESSAGE_HEAD_BYTES);
    for (const part of parts) this.stream.write(part, part.length, true);
    this.#boundWaiting();
  }

  /** Drops this call if all calls together have too many waiting bytes and this one has some. */
  #boundWaiting(): void {
    if (!this.shared.waiting.exceeded || this.queued === 0) return;
    const handler = this.#handler;
    this.drop();
    handler?.cancelled();
  }

  /** Sends the head of the answer before the first message. */
  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.#faults === null) this.stream.head(HEADS[this.encoding ?? "plain"], false);
  }

  /** Ends the call with a status. */
  end(status: GrpcStatus = GRPC_OK): void {
    if (this.#over) return;
    this.#close();
    if (this.#faults !== null) this.#faults.end(status);
    else if (this.#begun) this.stream.end(trailersOf(status));
    else this.stream.head(onlyTrailers(status), true);
  }

  /** Passes a message to the handler. If a promise is returned, the next call must wait until the promise has resolved. */
  deliver(bytes: Uint8Array): void | Promise<void> {
    return this.#handler?.message(bytes);
  }

  /** Tells the handler that the client's last message was delivered. */
  allDelivered(): void {
    this.#handler?.halfClosed();
  }

  /** Called when later bytes of the client begin (true) or cease (false) to wait for a message that is being read. */
  waits(isWaiting: boolean): void {
    this.#pausedByReading = isWaiting;
    if (isWaiting) this.stream.pause();
    else this.#resumeIfReady();
  }

  /** Ends the call and tells the handler that it is over. */
  refuse(status: GrpcStatus): void {
    const handler = this.#handler;
    this.end(status);
    handler?.cancelled();
  }

  /** Ends the call after an unexpected error. */
  fail(why: unknown): void {
    this.shared.broken(why);
    this.end({ code: "UNKNOWN", message: "Unexpected error in RPC handling" });
  }

  /** Resets the stream without a status, because the client reads too slowly. */
  drop(): void {
    if (this.#over) return;
    this.#close();
    this.#faults?.gone();
    this.stream.reset(Http2Code.Calm);
  }

  /** Stops enlarging the client's window. The client may still use what is left of it. */
  pause(): void {
    this.#pausedByHandler = true;
    this.stream.pause();
  }

  resume(): void {
    this.#pausedByHandler = false;
    this.#resumeIfReady();
  }

  #resumeIfReady(): void {
    if (!this.#pausedByHandler && !this.#pausedByReading) this.stream.resume();
  }

  expire(): void {
    const handler = this.#handler;
    // Messages before the status may never leave, so the stream is reset instead.
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
