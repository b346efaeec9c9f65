/** Is a request that got no answer sent again when it should be, and counted; and else not? */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import type { LoadOutcome } from "../../../src/tools/load/load.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { kinds, loadOn, WHOLE } from "./loaded.ts";
import { type Asked, type RawServer, rawServer, type Wire } from "./raw-server.ts";

setDefaultTimeout(20_000);

let server: RawServer | null = null;
afterEach(() => server?.stop());

/** Loads a server that answers so. */
function load(answer: (asked: Asked, wire: Wire) => void, more: Partial<Settings> = {}): Promise<LoadOutcome> {
  server = rawServer(answer);
  return loadOn(server, more);
}

const refusal = (status: string, headers = "") => `HTTP/1.1 ${status}\r\n${headers}Content-Length: 2\r\n\r\n{}`;
const told = ({ result }: LoadOutcome) => result.understudy.retries;

test("what got no answer is sent again, as Retry-After says; times count from the first send", async () => {
  const answers = [refusal("503 Busy", "Retry-After: 0.2\r\n"), refusal("429 No", "retry-after-ms: 100\r\n"), null];
  const loaded = await load(
    ({ index }, wire) => (answers[index] === null ? wire.cut() : wire.send(answers[index] ?? WHOLE)),
    // A connection that was used before and is cut has crossed its closing: that is no retry.
    { retries: 3, count: 4, concurrency: 1, pooled: false },
  );
  expect(told(loaded)).toEqual({ limit: 3, count: 3, requests: 1, per_request: 0.75 });
  expect(kinds(loaded)).toEqual({});
  expect(server!.asked.length).toBe(7);
  expect(new Set(server!.asked.slice(0, 4).map(({ headers }) => headers.get("x-request-id"))).size).toBe(1);
  const { records, result } = loaded;
  expect(records.map(({ retries }) => retries)).toEqual([3, 0, 0, 0]);
  // 200 + 100 ms as told, then 500 by itself, of which a quarter may be left out.
  const firstMs = (records[0]!.firstUs - records[0]!.sendUs) / 1000;
  expect(firstMs).toBeGreaterThanOrEqual(675);
  const perUser = result.understudy.tokens_per_s_per_user!;
  expect(perUser.count).toBe(4);
  expect(perUser.min!).toBeCloseTo(5 / ((records[0]!.lastUs - records[0]!.sendUs) / 1e6), 3);
});

test("so often and no more; not what is wrong with the request, nor what says no, nor too late; by default nothing", async () => {
  const now = "Retry-After: 0\r\n";
  for (const [status, headers, retries, asked] of [
    ["500 Oops", now, 2, 3],
    ["400 Bad", now, 2, 1],
    ["503 Busy", `${now}x-should-retry: false\r\n`, 2, 1],
    ["503 Busy", "Retry-After: 121\r\n", 2, 1],
    ["503 Busy", now, 0, 1],
  ] as const) {
    const loaded = await load((_, wire) => wire.send(refusal(status, headers)), { retries });
    expect([status, server!.asked.length, told(loaded)!.count]).toEqual([status, asked, asked - 1]);
    expect(kinds(loaded)).toEqual({ status: 1 });
    server!.stop();
  }
});

test("a request that waits to be sent again ends with the run, and in its time", async () => {
  const busy = (_: Asked, wire: Wire) => wire.send(refusal("503 Busy", "Retry-After: 60\r\n"));
  const cut = await load(busy, { retries: 1, durationS: 0.2, count: null });
  expect(kinds(cut)).toEqual({ unfinished: 1 });
  server!.stop();
  const late = await load(busy, { retries: 1, timeoutS: 0.2 });
  expect(kinds(late)).toEqual({ timeout: 1 });
  expect(late.nothing).toContain("while it waited for a retry after: HTTP 503");
});
