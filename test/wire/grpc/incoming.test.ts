/** Tests that the bytes of a call become messages in order, and that no turn of the event loop takes long. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { deflateSync, gzipSync } from "node:zlib";
import { HeldMessages } from "../../../src/wire/grpc/held-messages.ts";
import { IncomingMessages, TurnShare } from "../../../src/wire/grpc/incoming.ts";
import { type GrpcStatus, onlyTrailers } from "../../../src/wire/grpc/status.ts";
import { Unpacking } from "../../../src/wire/grpc/unpacking.ts";

const MIB = 2 ** 20;
const framed = (body: Uint8Array, flag = 0): Buffer => {
  const head = Buffer.from([flag, 0, 0, 0, 0]);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};

/** A call with a clock that the test moves, and with turns that run when the test calls `turn`. */
function called({
  encoding = null as "gzip" | "deflate" | null,
  messageBytes = 4 * MIB,
  most = 64 * MIB,
  messageUs = 0,
} = {}) {
  let nowUs = 0;
  const due: (() => void)[] = [];
  const turns = {
    nowUs: () => nowUs,
    after(_: number, act: () => void) {
      due.push(act);
      return () => {};
    },
  };
  const held = new HeldMessages(most);
  const told: string[] = [];
  const came: Buffer[] = [];
  let reading: PromiseWithResolvers<void> | null = null;
  const call: IncomingMessages = new IncomingMessages(
    { messageBytes, held, unpacking: new Unpacking(messageBytes, held), turns, share: new TurnShare(turns) },
    encoding,
    {
      deliver(bytes) {
        came.push(Buffer.from(bytes));
        nowUs += messageUs;
        return reading?.promise;
      },
      allDelivered: () => void told.push("all"),
      refuse({ code, message }: GrpcStatus) {
        told.push(`${code}: ${message}`);
        call.close();
      },
      fail: (why) => void told.push(`${why}`),
      waits: (isWaiting) => void told.push(isWaiting ? "waits" : "goes on"),
    },
  );
  const turn = async () => {
    for (const act of due.splice(0)) act();
    await Bun.sleep(0);
  };
  const read = (next: PromiseWithResolvers<void> | null) => {
    reading = next;
  };
  return { call, held, told, came, turn, read, due };
}

test("many short messages in one frame are delivered over several turns of the event loop", async () => {
  const { call, came, told, turn, held } = called({ messageUs: 300 });
  call.data(Buffer.concat(Array.from({ length: 40 }, (_, at) => framed(Buffer.from([at])))));
  call.end();
  const counts = [came.length];
  for (let turns = 0; turns < 40 && came.length < 40; turns++) {
    await turn();
    counts.push(came.length);
  }
  for (const [at, count] of counts.entries()) expect(count - (counts[at - 1] ?? 0)).toBeLessThanOrEqual(4);
  expect(came.map(([byte]) => byte)).toEqual(Array.from({ length: 40 }, (_, at) => at));
  expect([told[0], told.at(-1), held.bytes]).toEqual(["waits", "all", 0]);
});

test("while a message is read, later messages and the end wait, and count as held", async () => {
  const { call, came, told, held, read } = called();
  const first = Promise.withResolvers<void>();
  read(first);
  call.data(framed(Buffer.alloc(1000, 1)));
  read(null);
  for (let at = 0; at < 300; at++)
    call.data(framed(Buffer.alloc(7, 2)).subarray(at % 2 === 0 ? 0 : 5, at % 2 === 0 ? 5 : 12));
  call.end();
  expect([came.length, told, held.bytes]).toEqual([1, ["waits"], 1000 + 150 * 12]);
  first.resolve();
  await Bun.sleep(0);
  expect([came.length, told.at(-1), held.bytes]).toEqual([151, "all", 0]);
});

test("compressed messages of any size arrive unchanged; one above the limit is refused, and nothing stays held", async () => {
  for (const [encoding, pack] of [["gzip", gzipSync] as const, ["deflate", deflateSync] as const])
    for (const length of [0, 10, 65_536, 65_537, 262_144, MIB + 3, 4 * MIB, 4 * MIB + 1, 40 * MIB]) {
      const { call, came, told, held } = called({ encoding });
      const body = Buffer.alloc(length, "abcdefgh");
      call.data(framed(pack(body), 1));
      call.data(framed(Buffer.from("next")));
      call.end();
      while (!told.some((one) => one === "all" || one.startsWith("RESOURCE"))) await Bun.sleep(1);
      if (length <= 4 * MIB) {
        expect([came.length, came[0]!.equals(body), `${came[1]}`]).toEqual([2, true, "next"]);
      } else
        expect(told.at(-1)).toBe(
          `RESOURCE_EXHAUSTED: Received message larger than max (${4 * MIB + 1} vs. ${4 * MIB})`,
        );
      expect(held.bytes).toBe(0);
    }
});

test("decompression stops at the limit of all calls, at invalid bytes, and at the end of the call", async () => {
  const packed = framed(gzipSync(Buffer.alloc(3 * MIB)), 1);
  const full = called({ encoding: "gzip", most: MIB });
  full.call.data(packed);
  while (full.told.length < 2) await Bun.sleep(1);
  expect([full.told[1], full.held.bytes]).toEqual([
    `RESOURCE_EXHAUSTED: messages of more than ${MIB} bytes are under way`,
    0,
  ]);
  const broken = called({ encoding: "gzip" });
  broken.call.data(framed(gzipSync(randomBytes(9000)).subarray(0, 8000), 1));
  while (broken.told.length < 2) await Bun.sleep(1);
  expect([broken.told[1], broken.held.bytes]).toEqual(["INTERNAL: Failed to decompress message", 0]);
  const over = called({ encoding: "gzip" });
  over.call.data(packed);
  over.call.close();
  while (over.held.bytes > 0) await Bun.sleep(1);
  expect(over.came).toEqual([]);
});

test("a part of a message does not keep its whole buffer in memory", () => {
  const other = called();
  const memory = new Uint8Array(MIB);
  other.call.data(memory.subarray(0, 4));
  memory.fill(255);
  other.call.data(Uint8Array.of(1, 42));
  expect(other.came).toEqual([Buffer.from([42])]);
});

test("a status message has at most 16,384 characters", () => {
  const long = onlyTrailers({ code: "NOT_FOUND", message: "x".repeat(40 * MIB) });
  expect(long.length).toBeLessThan(17_000);
  expect(long.toString("latin1")).toContain("x".repeat(100));
});
