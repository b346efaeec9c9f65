/** Tests that the command replays every trace format on several engines, and that a second run writes the same bytes. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { main } from "../../program.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-formats-"));
afterAll(() => rmSync(folder, { recursive: true }));

function understudy(...argv: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv], { cwd: folder });
  expect([exitCode, stderr.toString()]).toEqual([0, ""]);
  return stdout.toString();
}
const write = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return name;
};
const range = <T>(length: number, of: (i: number) => T) => Array.from({ length }, (_, i) => of(i));

/** Small traces in the shape of the public ones. */
const formats: Readonly<Record<string, () => string[]>> = {
  mooncake: () => {
    const line = (i: number) => {
      const input_length = 700 + 90 * i;
      const hash_ids = range(Math.ceil(input_length / 512), (block) => (block === 0 ? 0 : 100 * i + block));
      return JSON.stringify({ timestamp: 3000 * (i >> 3), input_length, output_length: 1 + i, hash_ids });
    };
    return [write("mooncake.jsonl", range(40, line).join("\n"))];
  },
  azure: () => {
    const row = (i: number) => `2023-11-16 18:17:${10 + i}.9799600,${100 + 40 * i},${1 + 3 * i}\r\n`;
    return [write("azure.csv", `TIMESTAMP,ContextTokens,GeneratedTokens\r\n${range(40, row).join("")}`)];
  },
  sharegpt: () => {
    const turn = (from: string, words: number) => ({ from, value: "word ".repeat(words) });
    const conversations = range(40, (i) => ({
      id: `${i}`,
      conversations: [turn("human", 5 + 9 * i), turn("gpt", 40)],
    }));
    return [write("sharegpt.json", JSON.stringify(conversations, null, 1)), "--format", "sharegpt:rate=20"];
  },
  truth: () => {
    understudy("--format", "synthetic:isl=20-900,osl=1-90,rate=30,requests=40", "--truth-log", "truth.jsonl");
    return ["truth.jsonl"];
  },
  synthetic: () => ["--format", "synthetic:isl=20-400,osl=1-90,concurrency=7,requests=40"],
};

test.each(Object.keys(formats))("two replays of format %s on two engines write the same bytes", (format) => {
  const argv = [...formats[format]!(), "--engines", "2", "--rate-scale", "1.5", "--seed", "3"];
  const outputs = ["json", "metrics", "series", "truth-log"];
  const [first, second] = [1, 2].map((n) => {
    expect(understudy(...argv, ...outputs.flatMap((name) => [`--${name}`, `${name}.${n}`]))).toContain(
      "40 of 40 finished",
    );
    return outputs.map((name) => readFileSync(join(folder, `${name}.${n}`), "utf8"));
  }) as [string[], string[]];
  expect(second).toEqual(first);
  const [json, page, series, truth] = first as [string, string, string, string];
  expect(JSON.parse(json)).toMatchObject({ trace: { format }, requests: { finished: 40 }, engines: 2 });
  expect(series.split("\n").length).toBeGreaterThan(2);
  for (const engine of [0, 1]) {
    expect(page).toMatch(new RegExp(`^vllm:generation_tokens_total\\{engine="${engine}",.*\\} [1-9]`, "m"));
    expect(truth).toContain(`{"type":"request","engine":${engine},`);
  }
});
