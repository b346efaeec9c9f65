/** Tests HTTP requests whose clients leave while the requests wait. */
import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";

const base = mkdtempSync(join(tmpdir(), "triton-leaving-"));
let child: TritonHosted | undefined;
afterAll(async () => {
  await child?.stop(0);
  rmSync(base, { recursive: true, force: true });
});

test("a request for one whole answer runs to its end after its client has left, as in Triton", async () => {
  cpSync(new URL("models/prio", import.meta.url).pathname, join(base, "prio"), { recursive: true });
  child = await hostTriton([`--model-repository=${base}`]);
  const { url, metrics } = child;
  const value = async (series: string) => {
    const page = await (await fetch(`${metrics}/metrics`)).text();
    return Number(
      page
        .split("\n")
        .find((line) => line.startsWith(`${series},`))
        ?.split(" ")
        .at(-1),
    );
  };
  const tensors = { text_input: ["BYTES", "hi"], sleep_ms: ["INT32", 100] } as const;
  const infer = Object.entries(tensors).map(([name, [datatype, data]]) => ({
    name,
    shape: [1, 1],
    datatype,
    data: [data],
  }));
  const bodies = {
    infer: { inputs: infer },
    generate: Object.fromEntries(Object.entries(tensors).map(([name, [, data]]) => [name, data])),
  };
  let done = 0;
  for (const verb of ["infer", "generate"] as const) {
    const ask = (signal: AbortSignal | null = null) =>
      fetch(`${url}/v2/models/prio/${verb}`, { method: "POST", body: JSON.stringify(bodies[verb]), signal });
    const pending = (count: number) =>
      eventually(async () => (await value('nv_inference_pending_request_count{model="prio"')) === count);
    const running = ask();
    const next = ask();
    await pending(1);
    const leaves = new AbortController();
    const waiting = ask(leaves.signal).catch(() => "gone");
    await pending(2);
    leaves.abort();
    expect([(await running).status, (await next).status, await waiting]).toEqual([200, 200, "gone"]);
    done += 3;
    await eventually(async () => (await value('nv_inference_request_success{model="prio"')) === done);
  }
  expect(await value('nv_inference_request_failure{model="prio",reason="CANCELED"')).toBe(0);
});
