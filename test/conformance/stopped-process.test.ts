/** Stops a live server during a stream and checks what it reports about the time in which it could not run. */
import { expect, test } from "bun:test";
import type { RequestLine, StepLine, TruthLine } from "../../src/truth/schema.ts";
import { sample, serve } from "../server.ts";

const STOPPED_MS = 400;

test("a stopped process appears in the row, its step, the metrics and the log, and later tokens keep their gaps", async () => {
  const server = await serve(["--served-model-name", "m", "--timing", "constant:ttft=20ms,itl=20ms"]);
  try {
    const answer = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": "held" },
      body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 40, ignore_eos: true, stream: true }),
    });
    const reader = answer.body!.getReader();
    await reader.read();
    process.kill(server.pid, "SIGSTOP");
    await Bun.sleep(STOPPED_MS);
    process.kill(server.pid, "SIGCONT");
    while (!(await reader.read()).done);

    const text = await (await fetch(`${server.url}/understudy/requests`)).text();
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as TruthLine);
    const row = lines.find((line): line is RequestLine => line.type === "request")!;
    const steps = lines.filter((line): line is StepLine => line.type === "step");
    const moved = steps.filter(({ rebasedUs }) => rebasedUs !== undefined);
    const movedUs = moved.reduce((sum, { rebasedUs }) => sum + rebasedUs!, 0);
    // The process was stopped at least this long, minus the rest of the running step.
    expect(movedUs).toBeGreaterThan((STOPPED_MS - 50) * 1000);
    expect(row.late.rebasedUs).toBe(movedUs);
    // A cause may be unknown, but each late step has one.
    for (const { dueUs, writeStartUs, rebasedUs = 0, cause } of steps) {
      expect(cause !== undefined).toBe(rebasedUs > 0 || writeStartUs! - dueUs! > 1000);
    }
    // A gap is longer by the time that the clock moved. No burst compensates for it.
    for (const [i, { dueUs, rebasedUs = 0 }] of steps.entries()) {
      if (i > 0) expect(dueUs! - steps[i - 1]!.dueUs!).toBe(20_000 + rebasedUs);
    }
    const seconds = await sample(server.url, "understudy_clock_rebased_seconds_total");
    expect(seconds * 1e6).toBeCloseTo(movedUs, 0);
  } finally {
    await server.stop();
  }
  // Reports that are still pending are printed at the end.
  const lines = server.output().match(/late: .*/g)!;
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.join("\n")).toMatch(/likely causes: .*; engine time was moved on by \d+\.\d+ s in all/);
});
