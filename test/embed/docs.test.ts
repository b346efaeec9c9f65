/** Tests that the code blocks of the pages on the library run unchanged, each in a separate process of Bun. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { run } from "../packed.ts";

const root = new URL("../../", import.meta.url).pathname;
const page = ["how-to/tests", "reference/library"]
  .map((name) => readFileSync(`${root}docs/${name}.md`, "utf8"))
  .join("\n");
const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block!);
/** A folder inside the checkout, so that the package is found by its name. */
const folder = `${root}build/docs-library/`;
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Code before a block that is only a part of a program. It defines the names that the blocks use. */
const AROUND = `
import { createEngine, createServer, latencies, VirtualClock } from "llm-understudy";
const options = { timing: "constant:ttft=20ms,itl=1ms", maxNumSeqs: 1, toolCallParser: "hermes", enableAutoToolChoice: true };
const server = await createServer(options).ready;
const clock = new VirtualClock();
const engine = await createEngine({ timing: "constant:ttft=200ms,itl=20ms" }, { clock });
engine.submit({ promptTokens: 5, maxTokens: 2 });
const headers = { "content-type": "application/json" };
const body = JSON.stringify({ prompt: "Hi", max_tokens: 50, ignore_eos: true });
const ask = () => fetch(server.url + "/v1/completions", { method: "POST", headers, body });
await (await ask()).text();
const load = Promise.all(Array.from({ length: 8 }, ask));
`;
const END = "\nawait load.catch(() => {});\nawait server.close();\n";

test.each(blocks.filter((block) => !block.includes("vitest")).map((block) => [block.split("\n")[0]!, block] as const))(
  "the block runs: %s",
  async (_, block) => {
    const whole = block.startsWith("import");
    const file = `${folder}${Bun.hash(block)}${block.includes("node:test") ? ".test" : ""}.mjs`;
    await Bun.write(file, whole ? block : `${AROUND}{\n${block}}\n${END}`);
    const words = file.endsWith(".test.mjs") ? ["test", file] : [file];
    const { code, err } = await run([process.execPath, ...words], root, {}, 20_000);
    expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
  },
  30_000,
);

test("the block for Vitest is part of a program that another test runs", () => {
  const [block = ""] = blocks.filter((text) => text.includes("vitest"));
  expect(readFileSync(`${root}examples/programs/client.test.js`, "utf8")).toContain(block);
});

// The block in TypeScript needs the reader's own client. test/tools/stress/library.test.ts has such a program.
test("only three blocks of the page are not run: Python, shell and TypeScript", () => {
  const others = [...page.matchAll(/```(\w*)\n/g)]
    .map(([, language]) => language)
    .filter((language) => language !== "js");
  expect(others.filter((language) => language !== "").sort()).toEqual(["python", "sh", "ts"]);
});
