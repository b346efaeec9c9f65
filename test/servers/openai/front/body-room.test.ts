/** Tests that the bytes of large bodies are limited together, and that no body waits for ever. */
import { expect, test } from "bun:test";
import net from "node:net";
import fc from "fast-check";
import { BodyRoom } from "../../../../src/servers/openai/front/body-room.ts";
import { eventually, serve } from "../../../server.ts";

test("admitted bodies fit the room or are alone, enter in the order of the calls, and all enter in the end", async () => {
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
          const sum = [...inside.values()].reduce((total, size) => total + size, 0);
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

test("a body that leaves while it waits does not delay the next one", async () => {
  const room = new BodyRoom(10, { nowUs: () => 0 });
  const [first, second, third] = [{}, {}, {}];
  expect(room.enter(first, 10)).toBe(true);
  const waiting = room.enter(second, 10);
  const next = room.enter(third, 10);
  room.leave(second);
  room.leave(first);
  expect([await waiting, await next]).toEqual([false, true]);
});

test("while others wait, a slow body reserves only received bytes, and its rest waits after them", async () => {
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
  // The reservation of the slow body has shrunk: eight of ten bytes are free.
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
  // No admitted body has its whole reservation, so that the next one may enter. Otherwise all would wait for each other.
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

/** Sends the head of a request with a body of so many bytes. Returns its socket and the answer so far. */
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

test("a server reads as many large bodies as have room. The next one waits, then gets 503. Small ones are answered", async () => {
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
    // The server asks for a body that has room with uvicorn's 100 Continue.
    const open = [begin(port, body.length), begin(port, body.length)];
    await eventually(() => open.every(({ seen }) => seen.answer.startsWith("HTTP/1.1 100")));
    const waiting = begin(port, body.length);
    const small = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", prompt: "x", max_tokens: 1 }),
    });
    expect([small.status, waiting.seen.answer]).toEqual([200, ""]);
    // After a body is complete it is answered, and the waiting one may come.
    open[0]!.socket.write(body);
    await eventually(() => open[0]!.seen.answer.includes("HTTP/1.1 200"));
    await eventually(() => waiting.seen.answer.startsWith("HTTP/1.1 100"));
    waiting.socket.write(body);
    await eventually(() => waiting.seen.answer.includes("HTTP/1.1 200"));
    for (const { socket } of [...open, waiting]) socket.destroy();
    // Clients that leave free their room.
    const again = [begin(port, body.length), begin(port, body.length)];
    await eventually(() => again.every(({ seen }) => seen.answer.startsWith("HTTP/1.1 100")));
    const late = begin(port, body.length);
    await eventually(() => late.seen.answer.startsWith("HTTP/1.1 503"));
    for (const { socket } of [...again, late]) socket.destroy();
  } finally {
    await server.stop();
  }
}, 30_000);
