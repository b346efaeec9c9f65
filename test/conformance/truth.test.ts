/** Checks that the truth log of a live server has the ids and byte counts that clients saw. */
import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RequestLine } from "../../src/truth/schema.ts";
import { main } from "../program.ts";
import { eventually, sample, serve } from "../server.ts";

test("rows have the ids and bytes of HTTP requests", async () => {
  const folder = await mkdtemp(join(tmpdir(), "understudy-truth-"));
  try {
    const file = join(folder, "truth.jsonl");
    const server = await serve(["--served-model-name", "m", "--timing", "none", "--truth-log", file]);
    const say = async (path: string, id: string, body: object): Promise<string> => {
      const response = await fetch(`${server.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-request-id": id },
        body: JSON.stringify({ model: "m", max_tokens: 20, ignore_eos: true, ...body }),
      });
      expect(response.status).toBe(200);
      return response.text();
    };
    const messages = [{ role: "user", content: "Hello" }];
    const answers = {
      "chatcmpl-stream": await say("/v1/chat/completions", "stream", { messages, stream: true }),
      "chatcmpl-plain": await say("/v1/chat/completions", "plain", { messages }),
      "cmpl-plain-0": await say("/v1/completions", "plain", { prompt: "Hello", n: 1 }),
    };
    const two = await say("/v1/completions", "two", { prompt: ["One", "Two"], n: 2, stream: true });
    await server.stop();

    const rows = (await Bun.file(file).text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as RequestLine)
      .filter(({ type }) => type === "request");
    const bytes = new Map(rows.map((row) => [row.id, row.bytes]));
    for (const [id, answer] of Object.entries(answers))
      expect([id, bytes.get(id)]).toEqual([id, Buffer.byteLength(answer)]);
    const children = ["0_cmpl-two-0", "1_cmpl-two-0", "0_cmpl-two-1", "1_cmpl-two-1"];
    expect([...bytes.keys()].toSorted()).toEqual([...Object.keys(answers), ...children].toSorted());
    expect(children.every((id) => bytes.get(id)! > 0)).toBe(true);
    expect(children.reduce((sum, id) => sum + bytes.get(id)!, 0)).toBe(Buffer.byteLength(two));
  } finally {
    await rm(folder, { recursive: true });
  }
});

// Only Linux has a device that is always full.
test.skipIf(process.platform !== "linux")(
  "a full disk gives one warning, the server continues, and lost rows are counted",
  async () => {
    const flags = ["--served-model-name", "m", "--timing", "none", "--disable-uvicorn-access-log"];
    const server = await serve([...flags, "--truth-log", "/dev/full"]);
    try {
      for (let i = 0; i < 20; i++) {
        const response = await fetch(`${server.url}/v1/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 20, ignore_eos: true }),
        });
        expect(((await response.json()) as { usage: object }).usage).toMatchObject({ completion_tokens: 20 });
      }
      const dropped = (kind: string) => sample(server.url, `understudy_truth_dropped_total{kind="${kind}"`);
      await eventually(async () => (await dropped("request")) === 20);
      expect(await dropped("run")).toBe(20);
      expect(await dropped("step")).toBeGreaterThanOrEqual(400);
    } finally {
      expect(await server.stop()).toBe(0);
    }
    const warnings = server.output().match(/.*truth.*/g)!;
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("--truth-log /dev/full: ENOSPC");
  },
);

test.each([
  ["/proc/none/truth.jsonl", "there is no folder /proc/none"],
  [tmpdir(), "it is a folder"],
])("--truth-log %s: one line and exit code 2 before anything starts", (file, why) => {
  const argv = ["serve", "--port", "0", "--truth-log", file];
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, ...argv]);
  expect([exitCode, stdout.toString()]).toEqual([2, ""]);
  expect(stderr.toString()).toBe(`understudy serve: --truth-log ${file}: ${why}\n`);
});
