/** Compares the ZMTP of our sockets with the recorded bytes between an engine and vLLM 0.33.0's front ends. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type DecoderEvents, ZmtpDecoder } from "../../../src/wire/zmtp/decoder.ts";
import { greeting, ready, readyProperties, zmtpParts } from "../../../src/wire/zmtp/frames.ts";

interface RecordedBytes {
  readonly socket: "handshake" | "input" | "output";
  readonly dir: string;
  readonly what: string;
  readonly hex: string;
}

const recorded = (front: string): readonly RecordedBytes[] =>
  JSON.parse(readFileSync(new URL(`../../golden/engine-core-0.33/zmtp-${front}.json`, import.meta.url), "utf8")).bytes;
const TYPES = { handshake: "DEALER", input: "DEALER", output: "PUSH" } as const;
const PEERS = { handshake: "ROUTER", input: "ROUTER", output: "PULL" } as const;
/** The recorded engine sent an empty identity to Python's front end, and none to the other one. */
const PUSH_IDENTITIES: Readonly<Record<string, Uint8Array | null>> = { rust: null, python: new Uint8Array() };
const rank = Buffer.from([0, 0]);

/** Returns what the decoder finds in the bytes, fed in pieces of `size`. */
function decoded(bytes: Buffer, size: number) {
  const found: unknown[] = [];
  const events: DecoderEvents = {
    onGreeting: ({ major, mechanism }) => found.push({ major, mechanism }),
    onCommand: (name, data) => found.push({ name, type: `${readyProperties(data)?.get("socket-type")}` }),
    onMessage: (frames) => found.push(frames.map((frame) => Buffer.from(frame).toString("hex"))),
  };
  const decoder = new ZmtpDecoder(events);
  for (let from = 0; from < bytes.length; from += size) decoder.feed(bytes.subarray(from, from + size));
  expect(decoder.heldBytes).toBe(0);
  return found;
}

/** Returns the frames of one message, without the decoder. */
function framesOf(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const isLong = (bytes[at]! & 2) !== 0;
    const from = at + (isLong ? 9 : 2);
    const length = isLong ? Number(bytes.readBigUInt64BE(at + 1)) : bytes[at + 1]!;
    frames.push(bytes.subarray(from, from + length));
    at = from + length;
  }
  return frames;
}

describe.each(["rust", "python"])("the exchange with the front end: %s", (front) => {
  const all = recorded(front);
  const isMessage = ({ what }: RecordedBytes) => !["greeting", "READY command"].includes(what);

  test.each(["handshake", "input", "output"] as const)("what the front end sends is decoded: %s", (socket) => {
    const sent = all.filter(({ dir, socket: of }) => dir === "front->engine" && of === socket);
    const bytes = sent.map(({ hex }) => Buffer.from(hex, "hex"));
    const messages = bytes
      .filter((_, at) => isMessage(sent[at]!))
      .map((one) => framesOf(one).map((f) => f.toString("hex")));
    for (const size of [1, 7, 64, 1_000_000])
      expect(decoded(Buffer.concat(bytes), size)).toEqual([
        { major: 3, mechanism: "NULL" },
        { name: "READY", type: PEERS[socket] },
        ...messages,
      ]);
  });

  test("what the engine sends is written with the recorded bytes", () => {
    const sent = all.filter(({ dir }) => dir === "engine->front");
    const written = sent.map(({ what, socket, hex }) => {
      if (what === "greeting") return greeting(0);
      if (what === "READY command") return ready(TYPES[socket], socket === "output" ? PUSH_IDENTITIES[front]! : rank);
      return Buffer.concat(zmtpParts(framesOf(Buffer.from(hex, "hex"))));
    });
    expect(written.map((bytes) => bytes.toString("hex"))).toEqual(sent.map(({ hex }) => hex));
    expect(sent.filter(isMessage).length).toBeGreaterThan(4);
  });
});
