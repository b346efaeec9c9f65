/** Tests that a client of the shipped model `echo` cannot make the server unready, unless the behaviour's options allow it. */
import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTriton } from "./child.ts";

const folder = mkdtempSync(join(tmpdir(), "triton-echo-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("mode kill is ordinary text, and ends the model only with options.kill", async () => {
  for (const name of ["echo", "fragile"])
    cpSync(new URL("../../src/servers/triton/shipped/echo", import.meta.url).pathname, join(folder, name), {
      recursive: true,
    });
  const config = await Bun.file(join(folder, "fragile", "config.pbtxt")).text();
  writeFileSync(join(folder, "fragile", "config.pbtxt"), config.replace('name: "echo"', 'name: "fragile"'));
  writeFileSync(join(folder, "fragile", "behaviour.yaml"), "behaviour: echo\noptions: { kill: true }\n");
  const child = await startTriton([`--model-repository=${folder}`]);
  try {
    const kill = async (name: string) => {
      const inputs = ["text_input", "mode"].map((input) => ({
        name: input,
        shape: [1],
        datatype: "BYTES",
        data: ["kill"],
      }));
      const answer = await fetch(`${child.url}/v2/models/${name}/infer`, {
        method: "POST",
        body: JSON.stringify({ inputs }),
      });
      await answer.text();
      const ready = async (path: string) => (await fetch(`${child.url}/v2/${path}/ready`)).status;
      return [answer.status, await ready(`models/${name}`), await ready("health")];
    };
    expect(await kill("echo")).toEqual([200, 200, 200]);
    expect((await kill("fragile")).slice(1)).toEqual([400, 400]);
  } finally {
    await child.stop("SIGTERM");
  }
});
