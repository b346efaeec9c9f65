/** A case of a full run, and the line that the report prints for it: the same bytes, the same verdict. */
import { expect, setDefaultTimeout, test } from "bun:test";
import net from "node:net";
import { epochSeconds, WallClock } from "../../src/host/clock.ts";
import { type StressCase, stressCase, stressCases } from "../../src/stress/cases.ts";
import { stressRun } from "../../src/stress/run.ts";
import { seenAnswer } from "../../src/stress/seen.ts";
import { sampled, seed } from "../size.ts";

setDefaultTimeout(600_000);

/** After so long without a byte the client closes: some faults leave the connection open. */
const QUIET_MS = 1500;

/** All bytes that one request under the URL brings, without the fields that tell the time. */
function bytesOf(url: string, tools: boolean): Promise<string> {
  const { hostname, port, pathname } = new URL(`${url}/chat/completions`);
  const body = JSON.stringify({ model: "m", stream: true, tools: tools ? [] : undefined });
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    const socket = net.connect({ host: hostname, port: Number(port) });
    socket.setTimeout(QUIET_MS, () => socket.destroy());
    socket.write(
      `POST ${pathname} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.on("end", () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () =>
      resolve(
        Buffer.concat(parts)
          .toString("latin1")
          .replace(/(date|retry-after): \w{3}, [^\r]*/g, "$1"),
      ),
    );
  });
}

/** By plan: the bytes of the first request, and the verdict. */
async function wire(cases: readonly StressCase[]): Promise<Map<string, readonly [bytes: string, verdict: string]>> {
  const clock = new WallClock();
  const bytes = new Map<string, string>();
  const settings = { cases, concurrency: 24, hangMs: 20_000, retries: null, port: 0, clock, epochSeconds };
  const results = await stressRun(
    async ({ url, id, withTools }) => {
      const came = await bytesOf(url, withTools);
      bytes.set(id, bytes.get(id) ?? came);
      return seenAnswer({ text: "" });
    },
    settings,
    () => {},
  );
  clock.close();
  return new Map(results.map(({ id, plan, verdict }) => [plan, [bytes.get(id)!, verdict]]));
}

test("the printed line of every case orders the case itself, whatever --seed says", () => {
  for (const from of [1, 2, 7]) {
    const cases = stressCases([], from);
    expect(cases.length).toBeGreaterThan(150);
    for (const one of cases) expect(stressCase(one.line, 99)).toEqual(one);
  }
  for (const line of ["B8#key=a%2Cb", "B8#seed=3,key=a", "B8#key=a,seed=3"]) {
    const one = stressCase(line, 5);
    expect(stressCase(one.line, 99)).toEqual(one);
    expect(one.plan.seed).toBe(line.includes("seed=3") ? 3 : 5);
  }
  expect(stressCases(["B8", "B8@head", "B8@head#seed=1"], 1).map(({ line }) => line)).toEqual([
    "B8#seed=1",
    "B8@head#seed=1",
  ]);
});

test("bytes on the wire and verdicts: a run of all faults, and its printed lines, twice", async () => {
  // Four requests that meet come in any order.
  const cases = sampled("stress", stressCases([], seed), 50).filter(({ atOnce }) => !atOnce);
  const first = await wire(cases);
  for (let time = 0; time < 2; time++) {
    const again = await wire([...first.keys()].map((line) => stressCase(line, 99)));
    for (const [plan, seen] of first) expect([plan, ...again.get(plan)!]).toEqual([plan, ...seen]);
  }
});
