/**
 * Measures how much time a test spends on its server. 200 tests in 8 files run in Node and in Bun with a server per test, and in
 * Node with a shared server that is reset. Tests with aimock, which npm installs into a temporary folder, run in turn with
 * them. The bench also measures later starts of a server in one process.
 *
 *   npx bun run bench library [--rounds 3] [--no-save]
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

const BARS = { each: 2, shared: 3, second: 1.5 };
const AIMOCK = "@copilotkit/aimock@1.43.0";
const FILES = 8;
const TESTS = 25;
/** Number of starts in one process after the first. */
const STARTS = 15;

rejectUnknown(["--rounds", "--no-save"]);
const rounds = number("--rounds", 3);

const ASK = `
const ask = async (url) => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ model: "meta-llama/Llama-3.1-8B-Instruct", messages: [{ role: "user", content: "hello" }] });
  const answer = await (await fetch(url + "/v1/chat/completions", { method: "POST", headers, body })).json();
  assert.equal(answer.choices[0].message.content, "Hi there!");
};
`;
const head = (runner: string) => `import assert from "node:assert";\nimport { test } from "${runner}";\n${ASK}`;
const tests = (act: string) => `for (let i = 0; i < ${TESTS}; i++) test("test " + i, ${act});\n`;

const OURS = 'import { createServer, withServer } from "llm-understudy";\n';
const EACH = `${OURS}${tests(`async () => {
  const server = await createServer({ timing: "none" }).ready;
  await server.next("Hi there!");
  await ask(server.url);
  await server.close();
}`)}`;
const SHARED = `${OURS}${tests(`withServer({ timing: "none" })(async (server) => {
  await server.next("Hi there!");
  await ask(server.url);
})`)}`;
const THEIRS = 'import { after } from "node:test";\nimport { LLMock } from "@copilotkit/aimock";\n';
const AIMOCK_EACH = `${THEIRS}${tests(`async () => {
  const mock = new LLMock({ port: 0 });
  mock.onMessage("hello", { content: "Hi there!" });
  await mock.start();
  await ask(mock.url);
  await mock.stop();
}`)}`;
const AIMOCK_SHARED = `${THEIRS}const mock = new LLMock({ port: 0 });
const started = mock.start();
after(() => mock.stop());
${tests(`async () => {
  await started;
  mock.onMessage("hello", { content: "Hi there!" });
  await ask(mock.url);
  mock.reset();
}`)}`;
const STARTED = `import { createServer } from "llm-understudy";
const times = [];
for (let i = 0; i <= ${STARTS}; i++) {
  const began = performance.now();
  const server = await createServer({ timing: "none" }).ready;
  await (await fetch(server.url + "/v1/models")).text();
  times.push(performance.now() - began);
  await server.close();
}
console.log(JSON.stringify(times));
process.exit(0);
`;

const folder = mkdtempSync(join(tmpdir(), "understudy-library-bench-"));

async function run(command: readonly string[], cwd = folder): Promise<{ readonly out: string; readonly ms: number }> {
  const began = performance.now();
  const child = Bun.spawn([...command], { cwd, stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}\n${out}${err}`);
  return { out, ms: performance.now() - began };
}

/** A file of tests, and the runtime that runs it: Bun if `bun` is true, else Node. */
interface Setup {
  readonly name: string;
  readonly text: string;
  readonly bun?: true;
}

const SETUPS = {
  eachNode: { name: "ours, a server each, Node", text: EACH },
  eachBun: { name: "ours, a server each, Bun", text: EACH, bun: true },
  sharedNode: { name: "ours, shared and reset, Node", text: SHARED },
  aimockEach: { name: "aimock, a server each, Node", text: AIMOCK_EACH },
  aimockShared: { name: "aimock, shared and reset, Node", text: AIMOCK_SHARED },
} as const satisfies Readonly<Record<string, Setup>>;
type SetupName = keyof typeof SETUPS;

function written(name: SetupName, { text, bun }: Setup): string[] {
  const to = join(folder, name);
  mkdirSync(to);
  const files = Array.from({ length: FILES }, (_, at) => join(to, `file${at}.test.mjs`));
  for (const file of files) writeFileSync(file, head(bun ? "bun:test" : "node:test") + text);
  return bun ? [process.execPath, "test", to] : ["node", "--test", ...files];
}

async function measured() {
  await run([process.execPath, "scripts/build.ts", "--library"], root);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  await run(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", AIMOCK]);
  symlinkSync(`${root}build/npm/llm-understudy`, join(folder, "node_modules/llm-understudy"));
  const commands = Object.entries(SETUPS).map(
    ([name, setup]) => [name as SetupName, written(name as SetupName, setup)] as const,
  );
  writeFileSync(join(folder, "started.mjs"), STARTED);
  const seconds = Object.fromEntries(commands.map(([name]) => [name, []])) as unknown as Record<SetupName, number[]>;
  const starts: Record<"node" | "bun", number[]> = { node: [], bun: [] };
  const firsts: Record<"node" | "bun", number[]> = { node: [], bun: [] };
  for (let round = 0; round < rounds; round++) {
    for (const [name, command] of commands) {
      progress(`library: round ${round + 1} of ${rounds}, ${SETUPS[name].name}`);
      seconds[name].push((await run(command)).ms / 1000);
    }
    for (const [name, program] of [["node", "node"] as const, ["bun", process.execPath] as const]) {
      const [first, ...others] = JSON.parse((await run([program, "started.mjs"])).out) as number[];
      firsts[name].push(first!);
      starts[name].push(...others);
    }
  }
  return { seconds, starts, firsts };
}

const { seconds, starts, firsts } = await measured().finally(() => rmSync(folder, { recursive: true, force: true }));
const names = Object.keys(SETUPS) as SetupName[];
const s = Object.fromEntries(names.map((name) => [name, median(seconds[name])])) as Record<SetupName, number>;
const ratios = {
  each: s.eachNode / s.eachBun,
  shared: s.sharedNode / s.aimockShared,
  second: median(starts.node) / median(starts.bun),
};
table(`${FILES * TESTS} tests in ${FILES} files, s, ${rounds} rounds`, [
  ["", "median", "shortest", "longest"],
  ...names.map((name) => [SETUPS[name].name, s[name], Math.min(...seconds[name]), Math.max(...seconds[name])]),
]);
table("From createServer to the first answer, ms", [
  ["", "first", "later"],
  ["Node", median(firsts.node), median(starts.node)],
  ["Bun", median(firsts.bun), median(starts.bun)],
]);
console.log(`  ${bar("a server per test, Node ÷ Bun", ratios.each, BARS.each, "times")}`);
console.log(`  ${bar("shared and reset ÷ aimock", ratios.shared, BARS.shared, "times")}`);
console.log(`  ${bar("later starts, Node ÷ Bun", ratios.second, BARS.second, "times")}`);
save("library", {
  ...{ rounds, tests: FILES * TESTS, files: FILES, against: AIMOCK, seconds: s, ratios },
  firstMs: { node: median(firsts.node), bun: median(firsts.bun) },
  laterMs: { node: median(starts.node), bun: median(starts.bun) },
});
