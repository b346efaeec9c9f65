/** What is a frame? Nine bytes of head, then what its type says: RFC 9113, sections 4 and 6. */

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

/** Bits of a head's fifth byte; what each means depends on the type. */
export const FrameFlag = { EndStream: 1, Ack: 1, EndHeaders: 4, Padded: 8, Priority: 32 } as const;

/** Why a stream or a connection ends: section 7. */
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

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const FRAME_HEAD_BYTES = 9;
/** Largest frame that is taken; the least that a peer must be allowed. */
export const FRAME_BYTES_MOST = 16_384;
/** What may be sent on a stream and on a connection until something else is said. */
export const FIRST_WINDOW = 65_535;
export const WINDOW_MOST = 2 ** 31 - 1;

/** The peer broke the rules: the connection ends. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly code: number;

  constructor(code: number, why: string) {
    super(why);
    this.code = code;
  }
}

/** Writes a head at the place; the payload follows it. */
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

/** As Bun's `writeUInt32BE`, which makes a view of each buffer. */
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

/** Name no stream. */
export const CONNECTION_FRAMES: ReadonlySet<number> = new Set([FrameType.Settings, FrameType.Ping, FrameType.GoAway]);
/** Name a stream. */
export const STREAM_FRAMES: ReadonlySet<number> = new Set([
  FrameType.Data,
  FrameType.Headers,
  FrameType.Priority,
  FrameType.RstStream,
  FrameType.Continuation,
]);

/** What stands in a frame beside its padding. */
export function unpadded(flags: number, payload: Buffer): Buffer {
  if (!(flags & FrameFlag.Padded)) return payload;
  const padding = payload[0] ?? payload.length;
  if (padding >= payload.length) throw new ConnectionError(Http2Code.Protocol, "a frame is all padding");
  return payload.subarray(1, payload.length - padding);
}
