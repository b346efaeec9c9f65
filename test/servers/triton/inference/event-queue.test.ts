/** Tests the limits of the bytes that wait for a client of an event stream that does not read. */
import { expect, test } from "bun:test";
import { EventQueue } from "../../../../src/servers/triton/inference/event-queue.ts";
import type { EventSink, SinkEvents } from "../../../../src/wire/http/sink.ts";
import { WaitingBytes } from "../../../../src/wire/http/waiting-bytes.ts";

const MIB = 2 ** 20;

/** Returns a stream whose client reads nothing from the first event on, until the test makes it read. */
function stalled(all = new WaitingBytes(2 ** 30), gone = () => {}) {
  const told: string[] = [];
  let full = false;
  let owner: SinkEvents | null = null;
  const waking: (() => void)[] = [];
  const sink = {
    get full() {
      return full;
    },
    write: () => true,
    writeParts(event: Uint8Array) {
      told.push(`event of ${event.length}`);
      full = true;
      return false;
    },
    end: () => void told.push("end"),
    reset: () => void told.push("reset"),
  } satisfies EventSink;
  const after = (_: number, act: () => void) => {
    waking.push(act);
    return () => {};
  };
  const queue = new EventQueue(
    (events) => {
      owner = events;
      return sink;
    },
    () => {
      told.push("gone");
      gone();
    },
    all,
    { nowUs: () => 0, after },
  );
  const turn = async () => {
    for (const act of waking.splice(0)) act();
    await Promise.resolve();
  };
  const drain = () => {
    full = false;
    owner!.onDrain();
  };
  return { queue, told, all, drain, turn, leave: () => owner!.onGone() };
}

test.each([
  ["bytes", MIB, 16],
  ["events", 10, 4096],
])("with more %s than may wait the request is cancelled and the stream broken off", async (_, bytes, most) => {
  const { queue, told, all, turn } = stalled();
  const event = new Uint8Array(bytes);
  for (let sent = 0; sent <= most; sent++) queue.write(event);
  await turn();
  expect([told, all.bytes]).toEqual([[`event of ${bytes}`], most * bytes]);
  queue.write(event);
  await turn();
  queue.write(event);
  queue.end();
  expect([told, all.bytes]).toEqual([[`event of ${bytes}`, "reset", "gone", "end"], 0]);
});

test("a reset stream does not end like a complete answer if the cancelled request ends at once", () => {
  const { queue, told } = stalled(undefined, () => queue.end());
  for (let sent = 0; sent <= 4097; sent++) queue.write(new Uint8Array(10));
  expect(told).toEqual(["event of 10", "reset", "gone", "end"]);
});

test("a burst of any size within one turn is queued for a client that reads", async () => {
  const { queue, told, all, drain, turn } = stalled();
  const event = new Uint8Array(16 * MIB);
  for (let sent = 0; sent < 4; sent++) queue.write(event);
  expect(all.bytes).toBe(3 * event.length);
  queue.end();
  await turn();
  for (let read = 0; read < 3; read++) drain();
  expect([told, all.bytes]).toEqual([[...Array(4).fill(`event of ${event.length}`), "end"], 0]);
});

test("events after a reset are not counted", () => {
  const { queue, told, all } = stalled();
  queue.write(new Uint8Array(10));
  queue.reset();
  queue.write(new Uint8Array(10));
  expect([told, all.bytes]).toEqual([["event of 10", "reset"], 0]);
});

test("a stream beyond the shared limit is reset, and a stream that ends or is read frees memory", () => {
  const all = new WaitingBytes(100);
  const [one, other, third] = [stalled(all), stalled(all), stalled(all)];
  const event = new Uint8Array(40);
  for (const { queue } of [one, other]) for (let sent = 0; sent < 2; sent++) queue.write(event);
  expect(all.bytes).toBe(80);
  for (let sent = 0; sent < 2; sent++) third.queue.write(event);
  expect([third.told, all.bytes]).toEqual([["event of 40", "reset", "gone"], 80]);
  one.drain();
  expect([one.told, all.bytes]).toEqual([["event of 40", "event of 40"], 40]);
  other.leave();
  other.queue.write(event);
  expect([other.told, all.bytes]).toEqual([["event of 40", "gone"], 0]);
});

test("a long event is sent in parts as the client reads, and later events wait for it", async () => {
  const { queue, told, all, drain, turn } = stalled();
  let made = 0;
  function* parts() {
    for (; made < 3; made++) yield new Uint8Array(made + 1);
  }
  let isOver = false;
  queue.writeLong(parts(), 1000);
  queue.write(new Uint8Array(7));
  queue.end(() => {
    isOver = true;
  });
  expect([all.bytes, queue.hadLong]).toEqual([1007, true]);
  for (let read = 0; read < 3; read++) {
    for (let wait = 0; wait < 5; wait++) await turn();
    expect(told.length).toBe(read + 1);
    expect(isOver).toBe(false);
    drain();
  }
  for (let wait = 0; wait < 5; wait++) await turn();
  expect(told).toEqual(["event of 1", "event of 2", "event of 3", "event of 7", "end"]);
  expect([all.bytes, isOver]).toEqual([0, true]);
});

test("a long event is freed when its client leaves", async () => {
  const { queue, told, all, turn, leave } = stalled();
  let isOver = false;
  queue.writeLong([new Uint8Array(1), new Uint8Array(2)], 1000);
  queue.writeLong([new Uint8Array(3)], 500);
  queue.end(() => {
    isOver = true;
  });
  for (let wait = 0; wait < 5; wait++) await turn();
  leave();
  for (let wait = 0; wait < 5; wait++) await turn();
  expect([told, all.bytes, isOver]).toEqual([["event of 1", "gone"], 0, true]);
});
