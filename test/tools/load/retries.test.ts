/** Tests which failed requests are retried, when, and how retries are counted. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import type { LoadOutcome } from "../../../src/tools/load/load.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { kinds, loadOn, WHOLE } from "./loaded.ts";
import { type RawRequest, type RawServer, rawServer, type Wire } from "./raw-server.ts";

setDefaultTimeout(20_000);

let server: RawServer | null = null;
afterEach(() => server?.stop());

/** Runs a load on a server that answers like this. */
function load(answer: (asked: RawRequest, wire: Wire) => void, more: Partial<Settings> = {}): Promise<LoadOutcome> {
  server = rawServer(answer);
  return loadOn(server, more);
}

const refusal = (status: string, headers = "") => `HTTP/1.1 ${status}\r\n${headers}Content-Length: 2\r\n\r\n{}`;
const retriesOf = ({ result }: LoadOutcome) => result.understudy.retries;

test("a refused request is retried after its Retry-After, and times count from the first send", async () => {
  const answers = [refusal("503 Busy", "Retry-After: 0.2\r\n"), refusal("429 No", "retry-after-ms: 100\r\n"), null];
  const loaded = await load(
    ({ index }, wire) => (answers[index] === null ? wire.cut() : wire.send(answers[index] ?? WHOLE)),
    // A reused connection that is cut was closing while the request was sent, which does not count as a retry.
    { retries: 3, count: 4, concurrency: 1, pooled: false },
  );
  expect(retriesOf(loaded)).toEqual({ limit: 3, count: 3, requests: 1, per_request: 0.75 });
  expect(kinds(loaded)).toEqual({});
  expect(server!.asked.length).toBe(7);
  expect(new Set(server!.asked.slice(0, 4).map(({ headers }) => headers.get("x-request-id"))).size).toBe(1);
  const { records, result } = loaded;
  expect(records.map(({ retries }) => retries)).toEqual([3, 0, 0, 0]);
  // Pauses of 200 and 100 ms from the server, then 500 ms by default, shortened by up to a quarter.
  const firstMs = (records[0]!.firstUs - records[0]!.sendUs) / 1000;
  expect(firstMs).toBeGreaterThanOrEqual(675);
  const perUser = result.understudy.tokens_per_s_per_user!;
  expect(perUser.count).toBe(4);
  expect(perUser.min!).toBeCloseTo(5 / ((records[0]!.lastUs - records[0]!.sendUs) / 1e6), 3);
});

test("retries are limited; client errors, refusals by the server and long waits are not retried; by default nothing is", async () => {
  const now = "Retry-After: 0\r\n";
  for (const [status, headers, retries, asked] of [
    ["500 Oops", now, 2, 3],
    ["400 Bad", now, 2, 1],
    ["503 Busy", `${now}x-should-retry: false\r\n`, 2, 1],
    ["503 Busy", "Retry-After: 121\r\n", 2, 1],
    ["503 Busy", now, 0, 1],
  ] as const) {
    const loaded = await load((_, wire) => wire.send(refusal(status, headers)), { retries });
    expect([status, server!.asked.length, retriesOf(loaded)!.count]).toEqual([status, asked, asked - 1]);
    expect(kinds(loaded)).toEqual({ status: 1 });
    server!.stop();
  }
});

test("a request that waits for a retry ends with the run, and within its timeout", async () => {
  const busy = (_: RawRequest, wire: Wire) => wire.send(refusal("503 Busy", "Retry-After: 60\r\n"));
  const cut = await load(busy, { retries: 1, durationS: 0.2, count: null });
  expect(kinds(cut)).toEqual({ unfinished: 1 });
  server!.stop();
  const late = await load(busy, { retries: 1, timeoutS: 0.2 });
  expect(kinds(late)).toEqual({ timeout: 1 });
  expect(late.nothing).toContain("while it waited for a retry after: HTTP 503");
});
