/** Tests the status line: its values cover the last ten seconds, and the time since the line before. */
import { expect, test } from "bun:test";
import { LiveLine } from "../../../src/tools/load/live.ts";
import { bytesOf, read, recordOf, workedExample } from "./played.ts";

const text = workedExample(true)
  .map(([, piece]) => piece)
  .join("");
/** Returns a record that ended at `endS`, with this TTFT, sent 2 ms late. */
const record = (endS: number, ttftMs: number) => {
  const sendUs = endS * 1e6 - ttftMs * 1000;
  const timed = { sendUs, intendedUs: sendUs - 2000, firstUs: endS * 1e6, endUs: endS * 1e6 };
  return recordOf(read([[0, bytesOf(text)]]).exchange, timed);
};

test("the line has requests, chunks per second, and latencies of only the last ten seconds", () => {
  const live = new LiveLine();
  const counts = { sent: 9, running: 3, failed: 1 };
  expect(live.line({ elapsedUs: 1e6, ...counts, outputs: 100, records: [] })).toBe(
    "1 s | 9 sent, 3 running, 5 done, 1 failed | 100 tok/s | TTFT p50 - p99 - ms | sched delay p99 - ms",
  );
  const records = [record(1, 9000), record(15, 100), record(18, 300)];
  expect(live.line({ elapsedUs: 20e6, ...counts, outputs: 2000, records })).toBe(
    "20 s | 9 sent, 3 running, 5 done, 1 failed | 100 tok/s | TTFT p50 200.0 p99 298.0 ms | sched delay p99 2.0 ms",
  );
});
