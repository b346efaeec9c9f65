/** Checks that log lines begin with the time in the form of the real server. */
import { expect, test } from "bun:test";
import { wallUs } from "../../src/base/clock.ts";
import { timedLine } from "../../src/base/log-time.ts";
import { endedLine } from "../../src/cli/serve/serve.ts";

// A time in the machine's time zone. Triton logs UTC.
const at = new Date(2026, 2, 7, 9, 5, 3, 40);
const utc = at.toISOString().replace(/^\d+-(\d+)-(\d+)T([\d:]+)\.(\d+)Z$/, "$1$2 $3.$4000");

test.each([
  ["vllm", "INFO 03-07 09:05:03 [understudy] a line"],
  ["trtllm-serve", "[03/07/2026-09:05:03] [TRT-LLM] [I] a line"],
  ["triton", `I${utc} ${process.pid} understudy] a line`],
] as const)("--role %s", (role, wanted) => {
  expect(timedLine("a line", role, at)).toBe(wanted);
});

test("lines of uvicorn have no time, as in the real servers", () => {
  for (const line of [
    'INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK',
    "WARNING:  Invalid HTTP request received.",
  ])
    expect(timedLine(line, "vllm", at)).toBe(line);
});

test("the last log line has the singular for one open request", () => {
  const since = wallUs();
  expect(endedLine({ role: "vllm" }, 1, since)).toMatch(/ended with 1 request open at the signal, after \d+\.\d s$/);
  expect(endedLine({ role: "vllm" }, 2, since)).toContain("ended with 2 requests open");
});
