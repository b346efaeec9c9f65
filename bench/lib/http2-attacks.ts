/**
 * Attacks of one HTTP/2 client on a server: frames that cost the server far more than the client. An attack opens streams,
 * sends its frames at once, and ends when the server has answered a PING sent after them, or has closed the connection.
 */
import { connect } from "node:net";
import { FrameFlag, FrameType, PREFACE } from "../../src/wire/http2/frames.ts";
import { encodeFields, type HeaderField } from "../../src/wire/http2/hpack.ts";
import { frame, settings, windowUpdate } from "../../test/wire/http2/peer.ts";

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
const blocksOf = (path: string, count: number, rest: Buffer) => {
  const block = Buffer.concat([encodeFields(requestOf(path)), rest]);
  return repeated(count, (at) => heading(idOf(at), block, true));
};
const filled = (unit: Buffer, bytes = BLOCK_BYTES) => repeated(Math.floor(bytes / unit.length), () => unit);

/** Returns a full SETTINGS frame that sets INITIAL_WINDOW_SIZE to each of the values in turn. */
const windowSettings = (...values: readonly number[]) =>
  settings(...Array.from({ length: 2730 }, (_, at) => [4, values[at % values.length]!] as const));

export const HTTP2_ATTACKS: readonly Http2Attack[] = [
  {
    name: "31 SETTINGS frames full of windows",
    streams: STREAMS,
    frames: () => repeated(31, () => windowSettings(65_535, 65_536)),
  },
  {
    name: "40,000 SETTINGS frames of one window",
    streams: STREAMS,
    frames: () => repeated(40_000, (at) => settings([4, 65_535 + (at % 2)])),
  },
  {
    name: "64 header blocks, each one long value",
    streams: 0,
    frames: (path) => blocksOf(path, 64, huffmanField(BLOCK_BYTES)),
  },
  { name: "64 header blocks of short fields", streams: 0, frames: (path) => blocksOf(path, 64, filled(SHORT_FIELD)) },
  {
    name: "64 header blocks of inserted fields",
    streams: 0,
    frames: (path) => blocksOf(path, 64, filled(INSERTED_FIELD)),
  },
  {
    name: "64 header blocks that repeat an entry",
    streams: 0,
    frames: (path) =>
      blocksOf(
        path,
        64,
        repeated(5000, () => Buffer.of(0x80 | 19)),
      ),
  },
  {
    name: "128 header blocks in 64 CONTINUATION frames each",
    streams: 0,
    frames: (path) =>
      repeated(128, (at) => {
        const id = idOf(at);
        const first = frame(FrameType.Headers, FrameFlag.EndStream, id, encodeFields(requestOf(path)));
        const part = (last: boolean) =>
          frame(FrameType.Continuation, last ? FrameFlag.EndHeaders : 0, id, filled(SHORT_FIELD, 500));
        return Buffer.concat([first, ...Array.from({ length: 62 }, () => part(false)), part(true)]);
      }),
  },
  {
    name: "200,000 WINDOW_UPDATE frames",
    streams: STREAMS,
    frames: () => repeated(200_000, (at) => windowUpdate(idOf(at % STREAMS), 1)),
  },
  {
    name: "200,000 PRIORITY frames",
    streams: STREAMS,
    frames: () =>
      repeated(200_000, (at) =>
        frame(FrameType.Priority, 0, idOf(at % STREAMS), Buffer.concat([uint32(0), Buffer.of(1)])),
      ),
  },
  {
    name: "RST_STREAM of all streams",
    streams: STREAMS,
    frames: () => repeated(STREAMS, (at) => frame(FrameType.RstStream, 0, idOf(at), uint32(8))),
  },
  {
    name: "200,000 empty DATA frames",
    streams: STREAMS,
    frames: () => repeated(200_000, (at) => frame(FrameType.Data, 0, idOf(at % STREAMS))),
  },
  {
    name: "200,000 PING frames",
    streams: STREAMS,
    frames: () => repeated(200_000, () => frame(FrameType.Ping, 0, 0, Buffer.alloc(8))),
  },
  {
    name: "20,000 requests that are reset at once",
    streams: 0,
    frames: (path) => {
      const block = encodeFields(requestOf(path));
      return repeated(20_000, (at) =>
        Buffer.concat([heading(idOf(at), block), frame(FrameType.RstStream, 0, idOf(at), uint32(8))]),
      );
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
