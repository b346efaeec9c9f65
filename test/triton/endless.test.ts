/** Tests that a model which never answers delays only its own requests, and that the server can still stop. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTriton } from "./child.ts";

const PBTXT = `backend: "python" input { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "y" data_type: TYPE_INT32 dims: [ 1 ] }`;

test("a model.ts that never answers delays only its own requests, keeps unloading, and lets the server end", async () => {
  const folder = mkdtempSync(join(tmpdir(), "triton-endless-"));
  for (const name of ["endless", "other"]) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    writeFileSync(join(folder, name, "config.pbtxt"), PBTXT);
  }
  writeFileSync(join(folder, "endless", "model.ts"), "export default { execute: () => new Promise(() => {}) };");
  const child = await startTriton([
    `--model-repository=${folder}`,
    "--model-control-mode=explicit",
    "--load-model=*",
    "--exit-timeout-secs=1",
  ]);
  try {
    const body = JSON.stringify({ inputs: [{ name: "x", shape: [1], datatype: "INT32", data: [1] }] });
    const leaves = new AbortController();
    const ask = (name: string) =>
      fetch(`${child.url}/v2/models/${name}/infer`, { method: "POST", body, signal: leaves.signal });
    const [running, waiting] = [ask("endless"), ask("endless")].map((one) => one.catch(() => "gone"));
    for (let turn = 0; turn < 3; turn++) expect((await ask("other")).status).toBe(200);
    const page = await (await fetch(`${child.metrics}/metrics`)).text();
    expect(page).toContain(`nv_inference_pending_request_count{model="endless",version="1"} 1`);
    expect(page).toContain(`nv_inference_pending_request_count{model="other",version="1"} 0`);
    await fetch(`${child.url}/v2/repository/models/endless/unload`, { method: "POST" });
    const index = await (await fetch(`${child.url}/v2/repository/index`, { method: "POST" })).json();
    expect(index).toContainEqual({ name: "endless", version: "1", state: "UNLOADING" });
    leaves.abort();
    expect(await Promise.all([running, waiting])).toEqual(["gone", "gone"]);
    expect((await fetch(`${child.url}/v2/health/live`)).status).toBe(200);
    await child.stop("SIGTERM");
  } finally {
    await child.stop("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});
