/** Are the bytes of bodies bounded in sum, whoever sends them, and does nobody wait for ever? */
import { expect, test } from "bun:test";
import net from "node:net";
import fc from "fast-check";
import { BodyRoom } from "../../../../src/servers/openai/front/body-room.ts";
import { eventually, serve } from "../../../server.ts";

test("no more than the room at once, in the order of asking, and all of them in the end", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 150 }), { maxLength: 20 }),
      fc.infiniteStream(fc.nat(99)),
      async (sizes, draws) => {
        const room = new BodyRoom(100, { nowUs: () => 0 });
        const inside = new Map<object, number>();
        const order: number[] = [];
        let gone = 0;
        const enter = async (bytes: number, at: number) => {
          const request = {};
          if ((await room.enter(request, bytes)) === false) return;
          order.push(at);
          inside.set(request, bytes);
          const sum = [...inside.values()].reduce((all, one) => all + one, 0);
          expect(sum <= 100 || inside.size === 1).toBe(true);
        };
        const all = sizes.map(enter);
        for (;;) {
          await Promise.resolve();
          await Promise.resolve();
          if (inside.size === 0) break;
          const leaving = [...inside.keys()][draws.next().value! % inside.size]!;
          inside.delete(leaving);
          gone++;
          room.leave(leaving);
          room.leave(leaving);
        }
        await Promise.all(all);
        expect([gone, order]).toEqual([sizes.length, sizes.map((_, at) => at)]);
      },
    ),
  );
});

test("one that waits and leaves holds nobody up", async () => {
  const room = new BodyRoom(10, { nowUs: () => 0 });
  const [first, second, third] = [{}, {}, {}];
  expect(room.enter(first, 10)).toBe(true);
  const waiting = room.enter(second, 10);
  const behind = room.enter(third, 10);
  room.leave(second);
  room.leave(first);
  expect([await waiting, await behind]).toEqual([false, true]);
});

test("who is slow keeps the room of what has come, and the rest of it waits behind the others", async () => {
  let nowUs = 0;
  const timers: (() => void)[] = [];
  const after = (_: number, act: () => void) => {
    timers.push(act);
    return () => {};
  };
  const pass = (us: number) => {
    nowUs += us;
    for (const act of timers.splice(0)) act();
  };
  const room = new BodyRoom(10, { nowUs: () => nowUs, after });
  const [slow, second, third, late] = [{}, {}, {}, {}];
  expect(room.enter(slow, 10)).toBe(true);
  room.came(slow, 2);
  expect(room.goesOn(slow)).toBe(true);
  const granted: string[] = [];
  const note = (name: string, waiting: Promise<boolean> | true) =>
    void Promise.resolve(waiting).then((yes) => granted.push(`${name} ${yes}`));
  note("second", room.enter(second, 8));
  note("third", room.enter(third, 3));
  await Promise.resolve();
  expect(granted).toEqual([]);
  // Alone no longer: eight of ten are free.
  pass(1_000_000);
  await Promise.resolve();
  await Promise.resolve();
  expect(granted).toEqual(["second true"]);
  note("slow", room.goesOn(slow));
  room.came(second, 8);
  expect(room.goesOn(second)).toBe(true);
  pass(1_000_000);
  room.leave(second);
  await Promise.resolve();
  await Promise.resolve();
  expect(granted).toEqual(["second true", "third true"]);
  room.leave(third);
  await Promise.resolve();
  await Promise.resolve();
  expect(granted.at(-1)).toBe("slow true");
  // Where nobody inside is whole, one may be, or all would wait for each other.
  note("late", room.enter(late, 10));
  room.came(slow, 4);
  pass(1_000_000);
  await Promise.resolve();
  await Promise.resolve();
  expect(granted.at(-1)).toBe("late true");
  room.leave(late);
  note("again", room.goesOn(slow));
  await Promise.resolve();
  await Promise.resolve();
  expect(granted.at(-1)).toBe("again true");
});

/** A request whose body of so many bytes does not come, but for its first megabytes; what came back, and the socket. */
function begin(port: number, bytes: number) {
  const socket = net.connect(port, "127.0.0.1");
  const seen = { answer: "", taken: 0 };
  socket.on("error", () => {});
  socket.on("data", (data) => (seen.answer += data.toString("latin1")));
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\nExpect: 100-continue\r\n\r\n`,
  );
  return { socket, seen };
}

test("a server reads as many large bodies as have room; the next one waits, then it is 503; small ones go on", async () => {
  const server = await serve([
    "--served-model-name",
    "m",
    "--timing",
    "none",
    "--max-body-mb",
    "4",
    "--body-timeout",
    "2",
  ]);
  const port = Number(new URL(server.url).port);
  try {
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 1, user: "u".repeat(1.5 * 2 ** 20) });
    // A body that is wanted is asked for: uvicorn's 100 Continue.
    const open = [begin(port, body.length), begin(port, body.length)];
    await eventually(() => open.every(({ seen }) => seen.answer.startsWith("HTTP/1.1 100")));
    const waiting = begin(port, body.length);
    const small = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", prompt: "x", max_tokens: 1 }),
    });
    expect([small.status, waiting.seen.answer]).toEqual([200, ""]);
    // One is complete: it is answered, and the next may come.
    open[0]!.socket.write(body);
    await eventually(() => open[0]!.seen.answer.includes("HTTP/1.1 200"));
    await eventually(() => waiting.seen.answer.startsWith("HTTP/1.1 100"));
    waiting.socket.write(body);
    await eventually(() => waiting.seen.answer.includes("HTTP/1.1 200"));
    for (const { socket } of [...open, waiting]) socket.destroy();
    // Room is free when clients leave.
    const again = [begin(port, body.length), begin(port, body.length)];
    await eventually(() => again.every(({ seen }) => seen.answer.startsWith("HTTP/1.1 100")));
    const late = begin(port, body.length);
    await eventually(() => late.seen.answer.startsWith("HTTP/1.1 503"));
    for (const { socket } of [...again, late]) socket.destroy();
  } finally {
    await server.stop();
  }
}, 30_000);
