/** Tests that the work per turn of the event loop is bounded for each connection, whatever its frames cost. */
import { expect, test } from "bun:test";
import net from "node:net";
import fc from "fast-check";
import { WallClock } from "../../../src/base/clock.ts";
import { OpenCount } from "../../../src/wire/http/open-count.ts";
import { apiKeepAlive } from "../../../src/wire/http2/api.ts";
import { FrameFlag, FrameType, Http2Code, PREFACE, WINDOW_MOST } from "../../../src/wire/http2/frames.ts";
import { encodeFields, HpackDecoder } from "../../../src/wire/http2/hpack.ts";
import { Http2Server } from "../../../src/wire/http2/server.ts";
import { cpuUs } from "../../cpu.ts";
import { times } from "../../size.ts";
import { frame, headers, Peer, REQUEST, settings, windowUpdate } from "./peer.ts";

const WINDOW = 4;
const HEAD = encodeFields([[":status", "200"]]);
const ids = (count: number) => Array.from({ length: count }, (_, at) => 2 * at + 1);

function withStreams(count: number, ...pairs: readonly (readonly [number, number])[]): Peer {
  const peer = new Peer().greet(...pairs);
  peer.send(...ids(count).map((id) => headers(id)));
  return peer;
}

test("a change of all windows takes as long with 16,384 open streams as with 16", () => {
  const changes = Buffer.concat(Array.from({ length: 2000 }, (_, at) => settings([WINDOW, 70_000 + (at % 7)])));
  const data = Buffer.alloc(80_000);
  const [few, many] = [16, 16_384].map((streams) => {
    const peer = withStreams(streams);
    // The client widened half of the streams, and half of those have data that waits for the connection's window.
    peer.send(...ids(streams / 2).map((id) => windowUpdate(id, 1000 + (id % 13))));
    for (const id of ids(streams / 4)) peer.owners.get(id)!.stream.write(data, data.length, true);
    return cpuUs(() => peer.send(changes));
  });
  expect(many! / few!).toBeLessThan(20);
});

test("32 settings in a frame are accepted, more end the connection; each value is checked, the last window counts", () => {
  const after = (...pairs: readonly (readonly [number, number])[]) => {
    const peer = new Peer().greet();
    const { stream } = peer.open(1);
    peer.send(settings(...pairs));
    return [peer.goAway, stream.window];
  };
  const full = Array.from({ length: 32 }, (_, at) => [WINDOW, at] as const);
  expect(after(...full)).toEqual([null, 31]);
  expect(after(...full, [WINDOW, 7])[0]).toBe(Http2Code.Calm);
  expect(after([WINDOW, 2 ** 31], [WINDOW, 7])[0]).toBe(Http2Code.FlowControl);
  expect(after([WINDOW, 5], [5, 1])[0]).toBe(Http2Code.Protocol);
});

/** Actions of a client on the windows of four streams. */
const acts = fc.array(
  fc.oneof(
    fc.record({
      stream: fc.nat(3),
      more: fc.oneof(fc.constantFrom(WINDOW_MOST, WINDOW_MOST - 65_535), fc.nat(WINDOW_MOST)),
    }),
    fc.record({ first: fc.oneof(fc.constantFrom(0, 1, 65_535, 65_536, WINDOW_MOST), fc.nat(WINDOW_MOST)) }),
    fc.record({ stream: fc.nat(3), sent: fc.integer({ min: 1, max: 3000 }) }),
    fc.record({ stream: fc.nat(3), reset: fc.constant(true) }),
  ),
  { maxLength: 40 },
);

test("a change of all windows ends the connection exactly if one of them would exceed 2^31-1", () => {
  fc.assert(
    fc.property(acts, (all) => {
      const peer = withStreams(4);
      peer.widen(0, 10_000_000);
      const windows = new Map(ids(4).map((id) => [id, 65_535]));
      let first = 65_535;
      for (const act of all) {
        if ("first" in act) {
          peer.send(settings([WINDOW, act.first]));
          for (const [id, window] of windows) windows.set(id, window + act.first - first);
          first = act.first;
          const overflows = [...windows.values()].some((window) => window > WINDOW_MOST);
          expect(peer.goAway).toBe(overflows ? Http2Code.FlowControl : null);
          if (overflows) return;
        } else {
          const id = 2 * act.stream + 1;
          const window = windows.get(id);
          if (window === undefined) continue;
          const { stream } = peer.owners.get(id)!;
          if ("more" in act) {
            peer.send(windowUpdate(id, Math.max(1, act.more)));
            if (window + Math.max(1, act.more) > WINDOW_MOST) windows.delete(id);
            else windows.set(id, window + Math.max(1, act.more));
          } else if ("sent" in act) {
            const bytes = Math.max(0, Math.min(act.sent, window));
            if (bytes > 0 && stream.queued === 0) stream.write(Buffer.alloc(bytes));
            if (bytes > 0 && stream.queued === 0) windows.set(id, window - bytes);
            peer.turn();
          } else {
            stream.reset(Http2Code.Calm);
            windows.delete(id);
          }
        }
        for (const [id, window] of windows) expect(peer.owners.get(id)!.stream.window).toBe(window);
      }
    }),
    { numRuns: times(600) },
  );
});

test("streams that a setting opens send 64 frames per turn until all have sent; a later setting stops them", () => {
  const count = 1000;
  const peer = withStreams(count, [WINDOW, 0]);
  for (const { stream } of peer.owners.values()) {
    stream.head(HEAD, false);
    stream.write(Buffer.from("two"));
  }
  peer.turn();
  const sent = () => peer.of(FrameType.Data).length;
  for (const id of ids(count)) peer.windows.set(id, 1);
  peer.connection.data(settings([WINDOW, 1]));
  const seen: number[] = [];
  for (let before = -1; before < sent(); seen.push(sent() - before)) {
    before = sent();
    peer.oneTurn();
    peer.see();
  }
  expect([sent(), Math.max(...seen) <= 2 * 64]).toEqual([count, true]);
  peer.send(settings([WINDOW, 0]), settings([WINDOW, 1]));
  expect(sent()).toBe(count);
  for (const id of ids(count)) peer.windows.set(id, 2);
  peer.send(settings([WINDOW, 3]));
  expect(sent()).toBe(2 * count);
  for (const id of ids(count)) expect(Buffer.concat(peer.data.get(id)!).toString()).toBe("two");
});

/** A header block of 15 KB with one Huffman-coded field: 24,000 letters of five bits. */
const CODED = Buffer.concat([
  encodeFields(REQUEST),
  Buffer.from([0, 1, 0x78, 0xff, 0x99, 0x74]),
  Buffer.alloc(15_000, Buffer.from([0x18, 0xc6, 0x31, 0x8c, 0x63])),
]);
/** A header block of 1 KB that refers to an entry of the static table a thousand times. */
const REPEATED = Buffer.concat([encodeFields(REQUEST), Buffer.alloc(1000, 0x80 | 19)]);
/** A block of 15 KB with 3,000 short fields. */
const SHORT = Buffer.concat([encodeFields(REQUEST), Buffer.alloc(15_000, Buffer.from([0, 0x81, 0x1f, 0x81, 0x1f]))]);

test.each([
  ["one long Huffman-coded field", CODED, 8],
  ["many short fields", SHORT, 2],
])("header blocks of 15 KB, %s: one turn decodes as many as cost a millisecond", (_, block, most) => {
  const peer = new Peer().greet();
  const opened = [0];
  peer.connection.data(
    Buffer.concat(ids(64).map((id) => frame(FrameType.Headers, FrameFlag.EndHeaders | FrameFlag.EndStream, id, block))),
  );
  opened.push(peer.owners.size);
  while (peer.paused) {
    peer.oneTurn();
    opened.push(peer.owners.size);
  }
  const perTurn = opened.slice(1).map((count, at) => count - opened[at]!);
  expect([peer.owners.size, Math.max(...perTurn) <= most, Math.min(...perTurn) > 0]).toEqual([64, true, true]);
});

test("Huffman decoding takes a few nanoseconds per byte: at most 25 times as long as adding the bytes up", () => {
  let sum = 0;
  const blocks = 300;
  const control = () => {
    for (let n = 0; n < blocks; n++) for (let at = 0; at < CODED.length; at++) sum = (sum + CODED[at]!) | 0;
  };
  const decode = () => {
    for (let n = 0; n < blocks; n++) new HpackDecoder().decode(CODED);
  };
  cpuUs(control);
  cpuUs(decode);
  expect(sum).not.toBe(0);
  expect(cpuUs(decode) / cpuUs(control)).toBeLessThan(25);
});

test("a frame that arrives byte by byte costs as much per byte with 16 KB as with 1 KB", () => {
  const perByte = (size: number) => {
    const frames = Array.from({ length: 16_384 / size }, () => frame(0x42, 0, 0, Buffer.alloc(size)));
    const parts = Array.from(Buffer.concat(frames), (byte) => Buffer.from([byte]));
    const peer = new Peer().greet();
    return cpuUs(() => parts.forEach((part) => void peer.connection.data(part)), 5);
  };
  perByte(1024);
  expect(perByte(16_384) / perByte(1024)).toBeLessThan(3.2);
});

test.each([
  ["heads", (id: number) => headers(id)],
  ["parts of bodies", (id: number) => frame(FrameType.Data, 0, id, Buffer.from("x"))],
  ["ends of bodies", (id: number) => frame(FrameType.Data, FrameFlag.EndStream, id)],
  ["resets", (id: number) => frame(FrameType.RstStream, 0, id, Buffer.alloc(4))],
])("frames that take longer than their estimated cost end the turn by time: %s", (kind, frameOf) => {
  let handled = 0;
  const handle = () => {
    peer.nowUs += 400;
    handled++;
  };
  let opened = () => {};
  const receiver = { data: handle, ended: handle, gone: handle };
  const peer: Peer = new Peer({
    open: () => {
      opened();
      return receiver;
    },
  }).greet();
  if (kind === "heads") opened = handle;
  else peer.send(...ids(9).map((id) => headers(id)));
  peer.connection.data(Buffer.concat(ids(9).map(frameOf)));
  const seen = [handled];
  while (peer.paused) {
    peer.oneTurn();
    seen.push(handled);
  }
  expect(seen).toEqual([3, 6, 9]);
});

test("a lost connection with thousands of streams ends them in several turns, each once", () => {
  const peer = withStreams(1000);
  const gone = () => [...peer.owners.values()].filter(({ told }) => told.at(-1) === "gone").length;
  peer.connection.lost();
  const seen = [gone()];
  while (seen.at(-1)! < 1000) {
    peer.oneTurn();
    seen.push(gone());
  }
  expect(Math.max(...seen.map((count, at) => count - (seen[at - 1] ?? 0)))).toBe(64);
  for (const { told } of peer.owners.values()) expect(told).toEqual(["gone"]);
});

test("data that is kept does not keep the whole read in memory", () => {
  const kept: Uint8Array[] = [];
  const peer = new Peer({ open: () => ({ data: (bytes) => void kept.push(bytes), ended() {}, gone() {} }) }).greet();
  const priority = frame(FrameType.Priority, 0, 99, Buffer.from([0, 0, 0, 0, 1]));
  peer.send(headers(1));
  peer.send(frame(FrameType.Data, 0, 1, Buffer.from("x")), ...Array.from({ length: 30_000 }, () => priority));
  expect(kept.map(({ length, buffer }) => [length, buffer.byteLength < 100])).toEqual([[1, true]]);
});

test("header blocks sent before a client's reset are not decoded after it", async () => {
  const wall = new WallClock();
  const closed = Promise.withResolvers<void>();
  let opened = 0;
  let client: net.Socket | null = null;
  const application = {
    open: () => {
      if (++opened === 2) client!.resetAndDestroy();
      return { data() {}, ended() {}, gone: () => closed.resolve() };
    },
  };
  const options = { hostname: "127.0.0.1", port: 0, tls: null, reusePort: false };
  const server = new Http2Server(application, { ...options, keepAlive: apiKeepAlive(0), clock: wall });
  client = net.connect({ port: server.port, host: "127.0.0.1" });
  client.on("error", () => {});
  client.write(
    Buffer.concat([
      PREFACE,
      settings(),
      ...ids(60).map((id) => frame(FrameType.Headers, FrameFlag.EndHeaders, id, REPEATED)),
    ]),
  );
  await closed.promise;
  const openedAtClose = opened;
  await Bun.sleep(50);
  expect([opened, opened < 20]).toEqual([openedAtClose, true]);
  await server.stop(true);
  wall.close();
});

test("each 512 streams opened beyond the first 511 order a young collection, on one connection or on many; fewer at once order none", () => {
  const idOf = (at: number) => 2 * at + 1;
  for (const connections of [1, 8]) {
    let crowds = 0;
    const openStreams = new OpenCount(() => crowds++);
    const peers = Array.from({ length: connections }, () => new Peer(undefined, openStreams).greet());
    const send = (at: number, ...frames: readonly Buffer[]) => peers[at % connections]!.send(...frames);
    for (let at = 0; at < 2048; at++)
      send(at, headers(idOf(at)), frame(FrameType.RstStream, 0, idOf(at), Buffer.alloc(4)));
    expect(crowds).toBe(0);
    for (let at = 2048; at < 2048 + 1022; at++) send(at, headers(idOf(at)));
    expect(crowds).toBe(0);
    send(2048 + 1022, headers(idOf(2048 + 1022)));
    expect(crowds).toBe(1);
    for (const { connection } of peers) connection.lost();
    for (const peer of peers) peer.turn();
    const after = new Peer(undefined, openStreams).greet();
    after.send(...ids(511).map((id) => headers(id)));
    for (const id of ids(600).slice(511)) after.send(headers(id), frame(FrameType.RstStream, 0, id, Buffer.alloc(4)));
    expect(crowds).toBe(1);
  }
});

test("a header block of 8 KiB and more is reported as garbage, also one that is refused; a request's usual block is not", () => {
  const blockOf = (fields: number) =>
    headers(1, true, [...REQUEST, ...Array.from({ length: fields }, () => ["x", "y"] as const)]);
  const decodedBytes = (fields: number) => new Peer().greet().send(blockOf(fields)).decodedBytes;
  expect(decodedBytes(20)).toBe(0);
  // RFC 9113 counts 32 bytes for a field besides its name and value.
  expect(decodedBytes(1000) / 34_000).toBeWithin(1, 1.2);
  expect(decodedBytes(8000) / 2 ** 18).toBeWithin(1, 1.2);
});
