/** Fuzzes a whole peer of each type of socket. Any bytes must end, with CPU time and memory in proportion to them. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { command, greeting, ready, zmtpParts } from "../../../src/wire/zmtp/frames.ts";
import { Peer, type PeerOwner, type SocketType } from "../../../src/wire/zmtp/peer.ts";
import { fuzz, mutated } from "../../fuzz.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const OTHER: Readonly<Record<SocketType, string>> = {
  DEALER: "ROUTER",
  ROUTER: "DEALER",
  PUSH: "PULL",
  PULL: "PUSH",
  PUB: "SUB",
  SUB: "PUB",
  XSUB: "XPUB",
};

const frame = fc.uint8Array({ maxLength: 40 });
const parts = (type: SocketType) =>
  fc
    .array(
      fc.oneof(
        fc.array(frame, { minLength: 1, maxLength: 3 }).map((frames) => Buffer.concat(zmtpParts(frames))),
        fc
          .tuple(fc.constantFrom("PING", "PONG", "SUBSCRIBE", "CANCEL", "READY", "ERROR", "X"), frame)
          .map(([name, data]) => command(name, data)),
      ),
      { maxLength: 6 },
    )
    .map((all) => [greeting(1), ready(OTHER[type], null), ...all]);

test.each(Object.keys(OTHER) as SocketType[])("any bytes are read by a peer of a %s", (type) => {
  const stream = fc.oneof(
    { weight: 3, arbitrary: mutated(parts(type)) },
    frame.map((bytes) => Buffer.from(bytes)),
  );
  let joins = 0;
  const owner: PeerOwner = {
    ...{ type, identity: null, highWaterMark: 10 },
    joined: () => (++joins > 0 ? null : "never"),
    received: () => {},
    left: () => {},
    drained: () => {},
  };
  // A socket that accepts all bytes: no output waits for it, so that the memory that is measured is that of the input.
  const socket = { write: (bytes: { readonly length: number }) => bytes.length, end: () => 0, terminate: () => {} };
  fuzz(60, stream, { usPerByte: 5, usMore: 3000, memoryPerByte: 300, memoryMore: 16_384 }, () => {
    const peer = new Peer(socket as never, owner);
    peer.greet();
    return (bytes) => {
      peer.data(bytes);
      return peer;
    };
  });
  expect(joins).toBeGreaterThan(5);
});
