/**
 * Frame types, flags, error codes and limits of HTTP/2, and the nine bytes at the start of each frame: RFC 9113, sections 4 and
 * 6.
 */

export const FrameType = {
  Data: 0,
  Headers: 1,
  Priority: 2,
  RstStream: 3,
  Settings: 4,
  PushPromise: 5,
  Ping: 6,
  GoAway: 7,
  WindowUpdate: 8,
  Continuation: 9,
} as const;

/** Bits of the flags byte. Their meaning depends on the frame type. */
export const FrameFlag = { EndStream: 1, Ack: 1, EndHeaders: 4, Padded: 8, Priority: 32 } as const;

/** Error codes with which streams and connections end: RFC 9113, section 7. */
export const Http2Code = {
  None: 0,
  Protocol: 1,
  Internal: 2,
  FlowControl: 3,
  StreamClosed: 5,
  FrameSize: 6,
  Refused: 7,
  Cancel: 8,
  Compression: 9,
  Calm: 11,
} as const;

export const SettingId = { TableSize: 1, Push: 2, Streams: 3, Window: 4, FrameSize: 5, HeaderBytes: 6 } as const;

/** The bytes that a client sends first. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const FRAME_HEAD_BYTES = 9;
/** Largest payload that is accepted and sent. The RFC lets no peer set a smaller limit. */
export const FRAME_BYTES_MOST = 16_384;
/** Windows of streams and connections before any change, in bytes. */
export const FIRST_WINDOW = 65_535;
export const WINDOW_MOST = 2 ** 31 - 1;

/** An error of the client that ends the connection. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly code: number;

  constructor(code: number, why: string) {
    super(why);
    this.code = code;
  }
}

/** Writes the start of a frame at offset `at`. `bytes`: length of the payload, which the caller writes after it. */
export function writeFrameHead(
  into: Buffer,
  at: number,
  bytes: number,
  type: number,
  flags: number,
  stream: number,
): void {
  into[at] = bytes >>> 16;
  into[at + 1] = bytes >>> 8;
  into[at + 2] = bytes;
  into[at + 3] = type;
  into[at + 4] = flags;
  writeUint32(into, at + 5, stream);
}

/** Like Bun's `writeUInt32BE`, but without creating a view of the buffer. */
export function writeUint32(into: Uint8Array, at: number, value: number): void {
  into[at] = value >>> 24;
  into[at + 1] = value >>> 16;
  into[at + 2] = value >>> 8;
  into[at + 3] = value;
}

export const readUint31 = (from: Uint8Array, at: number): number =>
  (from[at]! & 0x7f) * 2 ** 24 + (from[at + 1]! << 16) + (from[at + 2]! << 8) + from[at + 3]!;
export const readUint32 = (from: Uint8Array, at: number): number =>
  from[at]! * 2 ** 24 + (from[at + 1]! << 16) + (from[at + 2]! << 8) + from[at + 3]!;

/** Frame types that concern the connection, so that their stream id must be 0. */
export const CONNECTION_FRAMES: ReadonlySet<number> = new Set([FrameType.Settings, FrameType.Ping, FrameType.GoAway]);
/** Frame types that concern a stream, so that their stream id must not be 0. */
export const STREAM_FRAMES: ReadonlySet<number> = new Set([
  FrameType.Data,
  FrameType.Headers,
  FrameType.Priority,
  FrameType.RstStream,
  FrameType.Continuation,
]);

/** Returns the payload of a frame without its padding. */
export function unpadded(flags: number, payload: Buffer): Buffer {
  if (!(flags & FrameFlag.Padded)) return payload;
  const padding = payload[0] ?? payload.length;
  if (padding >= payload.length)
    throw new ConnectionError(Http2Code.Protocol, "padding is longer than the payload of its frame");
  return payload.subarray(1, payload.length - padding);
}

/** Throws a `ConnectionError` unless the payload has the length that its frame type requires. */
export function checkLength(frame: string, payload: Buffer, bytes: number): void {
  if (payload.length !== bytes)
    throw new ConnectionError(Http2Code.FrameSize, `${frame} payload is ${payload.length} bytes, must be ${bytes}`);
}
