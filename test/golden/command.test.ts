/** Tests `bun run golden` with folders of both formats: packed, broken, missing and unknown files. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const recording = (name: string) => Bun.file(join(import.meta.dir, name));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "understudy-golden-"));
  await mkdir(join(folder, "good/below"), { recursive: true });
  for (const name of ["bad", "gone-out"]) await mkdir(join(folder, name));
  const trace = await recording("vllm-0.33/single_request.jsonl").text();
  const scenarios = JSON.parse(await recording("recorded/vllm-0.33.0-scheduler.json").text());
  const two = JSON.stringify({ ...scenarios, scenarios: scenarios.scenarios.slice(0, 2) });
  const files: Record<string, string | Uint8Array> = {
    "good/trace.jsonl": trace,
    "good/packed.jsonl.gz": Bun.gzipSync(trace),
    "good/packed-though-its-name-does-not-say-so.jsonl": Bun.gzipSync(trace),
    "good/below/two.json": two,
    "good/below/two-packed.json.gz": Bun.gzipSync(two),
    "good/other.json": '{"no": "scenarios"}',
    "good/README.md": "not looked at",
    "bad/cut.jsonl.gz": Bun.gzipSync(trace).slice(0, 200),
    "bad/empty.jsonl": "",
    "bad/key.jsonl": trace.replace('"t":"req"', '"t":"req","images":1'),
    "bad/not-json.jsonl": "{oh",
    "bad/option.jsonl": trace.replace('"config":{', '"config":{"num_speculative_tokens":2,'),
    "bad/row.jsonl": trace.replace('"t":"s"', '"t":"s","drafts":1'),
    "bad/scenario-key.json": two.replace('"mt":', '"images":1,"mt":'),
    "bad/wrong-place.json": "[",
  };
  for (const [name, content] of Object.entries(files)) await Bun.write(join(folder, name), content);
  await symlink(join(folder, "gone"), join(folder, "bad/dangling.jsonl"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

function golden(...words: string[]) {
  const paths = words.map((word) => (/^(good|bad|gone)/.test(word) ? join(folder, word) : word));
  const run = Bun.spawnSync([process.execPath, join(import.meta.dir, "golden.ts"), ...paths]);
  const lines = run.stdout.toString().trim().replaceAll(folder, "").split("\n");
  return { code: run.exitCode, lines, error: run.stderr.toString().trim().replaceAll(folder, "") };
}

test("recordings of both formats are found, packed or not, also in subfolders, and other files are ignored", () => {
  expect(golden("good")).toEqual({ code: 0, lines: ["7 passed, 0 failed"], error: "" });
});

test("an unreadable file is a failure with one line, and the other files are still compared", () => {
  const { code, lines } = golden("bad", "good", "gone.jsonl");
  expect(code).toBe(1);
  expect(lines.at(-1)).toBe("8 passed, 10 failed");
  const starts = [
    "/bad/cut.jsonl.gz: ",
    "/bad/dangling.jsonl: ENOENT",
    "/bad/empty.jsonl:1: not JSON",
    "/bad/key.jsonl:2: the request has an unknown key: images",
    "/bad/not-json.jsonl:1: not JSON",
    "/bad/option.jsonl: unknown option in the header: num_speculative_tokens",
    "/bad/row.jsonl: first difference in row 1: s 1",
    "/bad/wrong-place.json: not JSON",
    "/gone.jsonl: ENOENT",
  ];
  for (const start of starts) expect(lines.filter((line) => line.startsWith(start))).toHaveLength(1);
  expect(
    lines.filter((line) => /^\/bad\/scenario-key\.json#.*: a request has an unknown key: images$/.test(line)),
  ).toHaveLength(1);
  // A difference is shown side by side, with indented lines. All other messages are one line.
  expect(lines.filter((line) => !line.startsWith(" ")).length).toBe(11);
});

test("with --mutate, unreadable files and unknown names do not count as noticed mutants", () => {
  const broken = golden("bad/not-json.jsonl", "good/trace.jsonl", "--mutate", "1");
  expect([broken.code, broken.lines.at(-1)]).toEqual([1, "0 passed, 2 failed"]);
  const absent = golden("good", "--only", "trace,nobody", "--mutate", "1");
  expect([absent.code, absent.lines]).toEqual([1, ["absent nobody", "0 passed, 2 failed"]]);
});

test.each(Array.from({ length: 20 }, (_, seed) => seed))("mutants of both formats with seed %p are noticed", (seed) => {
  expect(golden("good", "--mutate", String(seed))).toEqual({ code: 0, lines: ["0 passed, 7 failed"], error: "" });
});

test.each([
  [["--mutate"], "golden: --mutate: must be a whole number"],
  [["--mutate", "x"], "golden: --mutate: must be a whole number"],
  [["--verbose"], "golden: --verbose: unknown; accepted are --mutate SEED, --only LIST, and files and folders"],
  [["gone-out"], "golden: no recordings (*.jsonl, *.json with scenarios, also .gz) in /gone-out"],
])("%j prints one line and exits with code 2", (words, why) => {
  const { code, error } = golden(...words);
  expect([code, error]).toEqual([2, why]);
});
