/** Tests the sockets of published events with our own subscribers: topics, late join, replay, limits, addresses. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WallClock } from "../../src/base/clock.ts";
import type { KvEventBatch } from "../../src/kv-events/batch.ts";
import { BatchCutter } from "../../src/kv-events/batch-cutter.ts";
import { KV_EVENTS_DEFAULTS, type KvEventsSource } from "../../src/kv-events/config.ts";
import { decodeKvEvents } from "../../src/kv-events/decode.ts";
import { KvEventsPublisher } from "../../src/kv-events/publisher.ts";
import { ReplayBuffer, sequenceFrame } from "../../src/kv-events/replay.ts";
import { pacing } from "../../src/wire/http/deadlines.ts";
import type { SocketType } from "../../src/wire/zmtp/peer.ts";
import { ZmtpSocket } from "../../src/wire/zmtp/socket.ts";

setDefaultTimeout(20_000);

const timer = pacing(new WallClock());
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

const LOCAL = "tcp://127.0.0.1:*";

function publisherOf(changes: Partial<KvEventsSource> = {}, rank = 0) {
  const lines: string[] = [];
  const source: KvEventsSource = {
    ...KV_EVENTS_DEFAULTS,
    ...{ enable_kv_cache_events: true, publisher: "zmq", endpoint: LOCAL, replay_endpoint: LOCAL },
    ...changes,
  };
  const shared = { profile: "0.33.0", algorithm: "sha256", seed: null, hasIntHashes: true } as const;
  const config = { source, ...shared, batchSize: null, faults: null, firstRank: 0 };
  const publisher = new KvEventsPublisher({ config, rank, timer, log: (line) => lines.push(line) });
  open.push(() => publisher.close());
  return { publisher, lines };
}

interface Message {
  readonly topic: string;
  readonly sequence: bigint;
  readonly payload: Uint8Array;
}
const messageOf = (frames: readonly Uint8Array[]): Message => ({
  topic: Buffer.from(frames[0]!).toString(),
  sequence: Buffer.from(frames[1]!).readBigUInt64BE(),
  payload: Buffer.from(frames[2]!),
});

function peerOf(type: SocketType, address: string, topic = "") {
  const got: Message[] = [];
  const socket = new ZmtpSocket(type, {
    timer,
    onMessage: (frames) => got.push(messageOf(type === "DEALER" ? frames.slice(1) : frames)),
  });
  open.push(() => socket.close());
  if (type === "SUB") socket.subscribe(Buffer.from(topic));
  socket.connect(address);
  return { socket, got };
}

async function until(isDone: () => boolean): Promise<void> {
  for (let turns = 0; !isDone(); turns++) {
    if (turns > 8000) throw new Error("it did not happen");
    await Bun.sleep(1);
  }
}

const batchOf = (number: number): KvEventBatch => ({
  ts: number,
  events: [{ type: "AllBlocksCleared" }],
  dataParallelRank: 0,
});
const END = 2n ** 64n - 1n;
const numbers = (messages: readonly Message[]) => messages.map(({ sequence }) => Number(sequence));

/** Publishes until the subscriber has a message, so that its subscription is known. */
async function joined(publisher: KvEventsPublisher, got: readonly Message[]): Promise<void> {
  await until(() => {
    if (got.length === 0) publisher.publish(batchOf(0));
    return got.length > 0;
  });
}

test("a subscriber gets topic, sequence and payload; a late one gets what is sent from then on", async () => {
  const { publisher } = publisherOf({ topic: "kv@pod@model" });
  for (let at = 0; at < 3; at++) publisher.publish(batchOf(at));
  const early = peerOf("SUB", publisher.source.endpoint, "kv@");
  const other = peerOf("SUB", publisher.source.endpoint, "other");
  await joined(publisher, early.got);
  expect(early.got[0]!.topic).toBe("kv@pod@model");
  const from = Number(early.got[0]!.sequence);
  expect(from).toBeGreaterThanOrEqual(3);
  publisher.publish(batchOf(77));
  await until(() => early.got.some(({ payload }) => decodeKvEvents(payload).ts === 77));
  expect(numbers(early.got)).toEqual(early.got.map((_, at) => from + at));
  expect(other.got).toEqual([]);
});

test("a replay has the kept batches from a sequence on, then the end", async () => {
  const { publisher, lines } = publisherOf({ topic: "t", buffer_steps: 5 });
  for (let at = 0; at < 9; at++) publisher.publish(batchOf(at));
  const client = peerOf("DEALER", publisher.source.replay_endpoint!);
  await until(() => client.socket.send([Buffer.alloc(0), sequenceFrame(6)]));
  await until(() => client.got.length === 4);
  expect(client.got.map(({ topic, sequence }) => [topic, sequence])).toEqual([
    ["t", 6n],
    ["t", 7n],
    ["t", 8n],
    ["", END],
  ]);
  expect(client.got.slice(0, 3).map(({ payload }) => decodeKvEvents(payload).ts)).toEqual([6, 7, 8]);
  client.got.length = 0;
  client.socket.send([Buffer.alloc(0), sequenceFrame(0)]);
  client.socket.send([Buffer.alloc(0), sequenceFrame(1000)]);
  await until(() => client.got.length === 7);
  expect(client.got.map(({ sequence }) => sequence)).toEqual([4n, 5n, 6n, 7n, 8n, END, END]);
  client.socket.send([Buffer.from("no delimiter")]);
  await until(() => lines.length > 0);
  expect(lines).toEqual(["an invalid replay request of 2 frames"]);
});

test("dropped batches leave a gap in the sequence", async () => {
  const { publisher } = publisherOf();
  const { got } = peerOf("SUB", publisher.source.endpoint);
  await joined(publisher, got);
  const last = got.length;
  publisher.publish(batchOf(1));
  publisher.dropped(3);
  publisher.publish(batchOf(2));
  await until(() => got.some(({ payload }) => decodeKvEvents(payload).ts === 2));
  const [before, after] = numbers(got).slice(-2) as [number, number];
  expect(after - before).toBe(4);
  expect(last).toBeGreaterThan(0);
  expect(publisher.droppedBatches).toBe(3);
});

test("a collector that binds gets the events of an engine that connects", async () => {
  const got: Message[] = [];
  const collector = new ZmtpSocket("SUB", { timer, onMessage: (frames) => got.push(messageOf(frames)) });
  open.push(() => collector.close());
  collector.subscribe(Buffer.from(""));
  const address = collector.bind(LOCAL);
  const { publisher } = publisherOf({ endpoint: address });
  expect(publisher.source.endpoint).toBe(address);
  await joined(publisher, got);
});

test("ipc:// is bound, even if an earlier process left its socket", async () => {
  const folder = mkdtempSync(join(tmpdir(), "kv-"));
  open.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "events");
  // The runtime removes the file of a socket that it closes.
  const left = Bun.listen({ unix: path, socket: { data() {} } });
  open.push(() => left.stop());
  const { publisher } = publisherOf({ endpoint: `ipc://${path}`, replay_endpoint: null });
  const { got } = peerOf("SUB", `ipc://${path}`);
  await joined(publisher, got);
});

test("a port in use is an error with the address, and nothing stays open", () => {
  const { publisher } = publisherOf();
  const { endpoint } = publisher.source;
  expect(() => publisherOf({ endpoint: endpoint.replace("127.0.0.1", "*") })).toThrow("is in use");
  const free = publisherOf().publisher.source.endpoint;
  expect(() => publisherOf({ replay_endpoint: endpoint, endpoint: free.replace(/\d+$/, "*") })).toThrow(
    `${endpoint} is in use`,
  );
});

test("inproc:// is accepted and has no socket", () => {
  const { publisher } = publisherOf({ endpoint: "inproc://cache", replay_endpoint: null }, 2);
  publisher.publish(batchOf(0));
  expect(publisher.source.endpoint).toBe("inproc://cache_dp2");
});

test("kept batches have a limit of bytes besides their number", () => {
  const sent: number[] = [];
  const replay = new ReplayBuffer(10_000, Buffer.alloc(0), (_, frames) => {
    sent.push(frames.length === 4 && frames[3]!.length > 0 ? Number(Buffer.from(frames[2]!).readBigUInt64BE()) : -1);
    return true;
  });
  const payload = Buffer.alloc(60 * 2 ** 20);
  for (let sequence = 0; sequence < 8; sequence++) replay.keep(sequence, payload);
  replay.requested(Buffer.from("a"), [Buffer.alloc(0), sequenceFrame(0)]);
  expect(sent).toEqual([4, 5, 6, 7, -1]);
});

test("a client that does not read gets the rest of its replay later, and at most 16 more wait", () => {
  let room = 0;
  const sent: string[] = [];
  const replay = new ReplayBuffer(10, Buffer.alloc(0), (_, frames) => {
    if (room === 0) return false;
    room--;
    const sequence = Buffer.from(frames[2]!).readBigUInt64BE();
    sent.push(sequence === END ? "end" : `${sequence}`);
    return true;
  });
  const client = Buffer.from("a");
  for (let sequence = 0; sequence < 3; sequence++) replay.keep(sequence, Buffer.from("x"));
  for (let at = 0; at < 30; at++) replay.requested(client, [Buffer.alloc(0), sequenceFrame(2)]);
  for (let turns = 0; turns < 100; turns++) {
    room = 1;
    replay.drained();
  }
  expect(sent).toEqual(Array.from({ length: 17 }, () => ["2", "end"]).flat());
  room = 0;
  replay.requested(client, [Buffer.alloc(0), sequenceFrame(0)]);
  replay.left(client);
  room = 100;
  replay.drained();
  expect(sent).toHaveLength(34);
});

test("events are cut into batches of a number, and the rest leaves after a second", () => {
  const sent: number[] = [];
  let due: (() => void) | null = null;
  const after = (_: number, act: () => void) => {
    due = act;
    return () => {
      due = null;
    };
  };
  const receiver = { publish: (batch: KvEventBatch) => sent.push(batch.events.length), dropped: () => {} };
  const cutter = new BatchCutter(4, { nowUs: () => 0, after }, receiver);
  const events = Array.from({ length: 6 }, () => ({ type: "AllBlocksCleared" as const }));
  cutter.publish({ ts: 1, events, dataParallelRank: 0 });
  expect(sent).toEqual([4]);
  due!();
  expect(sent).toEqual([4, 2]);
  cutter.publish({ ts: 2, events: events.slice(0, 3), dataParallelRank: 0 });
  cutter.publish({ ts: 3, events: events.slice(0, 1), dataParallelRank: 0 });
  expect(sent).toEqual([4, 2, 4]);
  expect(due).toBeNull();
});
