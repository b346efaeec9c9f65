/** Do the real clients work against us, each by its own means? One server for all; docs/clients.md says the same. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BETWEEN, clientsTable } from "../../scripts/clients-table.ts";
import { type Server, serve } from "../server.ts";
import { clients } from "./matrix.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
/** Words by which the clients that retry are told apart: the first two requests with one are refused. */
const RETRYING = [
  ...["openai-node", "openai-python", "openai-python-async", "ai-sdk", "langchain-node"],
  ...["anthropic-node", "anthropic-python"],
];

let server: Server;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-clients-"));
  const refused = { error: { status: 429, message: "Busy", type: "RateLimitError", retry_after_s: 1 } };
  const fixtures = RETRYING.flatMap((name) => [
    { match: { user: `retry ${name}`, nth: [1, 2] }, answer: refused },
    { match: { user: `retry ${name}` }, answer: "At last" },
  ]);
  writeFileSync(join(folder, "retries.json"), JSON.stringify({ fixtures }));
  // So that a limit below 200 always cuts, and answers without one are not long; own-end.test.ts draws lengths.
  const lengths = "--output-tokens constant:200";
  const flags = `--served-model-name m --timing constant:ttft=20ms,itl=5ms ${lengths} --disable-uvicorn-access-log`;
  const tools = "--enable-auto-tool-choice --tool-call-parser hermes";
  server = await serve([...flags.split(" "), ...tools.split(" "), "--fixtures", folder], {
    VLLM_ENABLE_RESPONSES_API_STORE: "1",
  });
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

for (const { name, packages, command, env, checks } of clients) {
  const [program] = command as [string];
  // Programs of a virtual environment are there in CI; elsewhere they are whoever's choice.
  const missing = program.includes("/") && !existsSync(root + program);
  test.skipIf(missing && process.env.CI === undefined)(`${name}: ${packages.join(", ")}`, async () => {
    const words = command.map((word) => (word === "URL" ? server.url : word));
    const child = Bun.spawn(words, { cwd: root, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
    const [out, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const seen = out
      .split("\n")
      .filter((line) => line.startsWith('{"check"'))
      .map((line) => JSON.parse(line) as { check: string; error?: string });
    expect(seen.filter(({ error }) => error !== undefined)).toEqual([]);
    expect([seen.map(({ check }) => check), seen.length > 0 ? "" : complaint]).toEqual([[...checks], ""]);
  });
}

test("docs/clients.md is the matrix. Cure: npx bun scripts/clients-table.ts", () => {
  const text = readFileSync(new URL("../../docs/clients.md", import.meta.url), "utf8");
  expect(BETWEEN.exec(text)?.[2]).toBe(clientsTable());
});
