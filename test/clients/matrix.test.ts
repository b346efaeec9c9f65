/**
 * Runs the real clients against one server, each with its usual API. docs/reference/clients.md lists the results. The whole, `npx bun
 * run test clients`, runs all clients. The sample runs the SDKs, and one client drawn from the slow ones (wrappers, agents,
 * load tools).
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Server, serve } from "../server.ts";
import { figure, sampled, sized } from "../size.ts";
import { type Client, clients } from "./matrix.ts";
import { findToolchain, isRecent, missingLine, TOOLCHAINS, type ToolchainName } from "./toolchains.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
/** Names in the prompts of the clients that retry. The server refuses the first two requests with each name. */
const RETRYING = [
  ...["openai-node", "openai-python", "openai-python-async", "ai-sdk", "langchain-node"],
  ...["anthropic-node", "anthropic-python"],
];

let server: Server;
let trtllm: Server;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-clients-"));
  const refused = { error: { status: 429, message: "Busy", type: "RateLimitError", retry_after_s: 1 } };
  const fixtures = RETRYING.flatMap((name) => [
    { match: { user: `retry ${name}`, nth: [1, 2] }, answer: refused },
    { match: { user: `retry ${name}` }, answer: "At last" },
  ]);
  writeFileSync(join(folder, "retries.json"), JSON.stringify({ fixtures }));
  // With this length a limit below 200 always cuts the answer, and answers without a limit stay short. own-end.test.ts tests
  // drawn lengths.
  const lengths = "--output-tokens constant:200";
  const flags = `--served-model-name m --timing constant:ttft=20ms,itl=5ms ${lengths} --disable-uvicorn-access-log`;
  const tools = "--enable-auto-tool-choice --tool-call-parser hermes";
  const other = "m --role trtllm-serve --max-seq-len 16384 --timing constant:ttft=20ms,itl=5ms";
  trtllm = await serve([...other.split(" "), ...lengths.split(" "), ...tools.split(" ")]);
  server = await serve([...flags.split(" "), ...tools.split(" "), "--fixtures", folder], {
    VLLM_ENABLE_RESPONSES_API_STORE: "1",
  });
});
afterAll(async () => {
  await Promise.all([server.stop(), trtllm.stop()]);
  rmSync(folder, { recursive: true });
});

/**
 * Reports whether a client is left out because its program is missing. CI must have the virtual environments; on other
 * machines they are optional.
 */
function isLeftOut({ command: [program], toolchain }: Client): boolean {
  if (toolchain !== undefined) return found.get(toolchain) === null;
  return program!.includes("/") && !existsSync(root + program!) && process.env.CI === undefined;
}

const languages = Object.keys(TOOLCHAINS) as ToolchainName[];
const builtBy = (language: ToolchainName) => clients.filter(({ toolchain }) => toolchain === language);
/** Path of each language's program, or null if it is missing. The sample needs none. */
const found = new Map(
  sized("clients", { sample: [], whole: languages }).map((language) => [language, findToolchain(TOOLCHAINS[language])]),
);
for (const [language, program] of found) {
  const names = builtBy(language).map(({ name }) => name);
  if (program === null && names.length > 0) console.log(missingLine(TOOLCHAINS[language], names));
}

/** Runs a command until it exits and returns its output and exit code. */
async function run(words: readonly string[], cwd: string, env: Client["env"] = {}) {
  const child = Bun.spawn([...words], { cwd, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out, complaint, code };
}

const chosen = sized("clients", {
  sample: clients.filter(({ toolchain, isSlow }) => toolchain === undefined && !isSlow),
  whole: clients.filter(({ isSlow }) => !isSlow),
});
chosen.push(
  ...sampled(
    "clients",
    clients.filter(({ isSlow }) => isSlow),
    1,
  ),
);
figure(
  "clients",
  chosen.filter((client) => !isLeftOut(client)).map(({ name, packages }) => `${name}: ${packages.join(", ")}`),
);
for (const client of chosen) {
  const { name, packages, command, env, build, toolchain } = client;
  const checks = client.isRunByCheck ? sampled("clients", client.checks, 1) : client.checks;
  test.skipIf(isLeftOut(client))(
    `${name} passes its checks: ${packages.join(", ")}`,
    async () => {
      const program = toolchain === undefined ? null : found.get(toolchain)!;
      const withProgram = (words: readonly string[]) =>
        words.map((word, at) => (at === 0 && word === toolchain ? program! : word));
      if (build) {
        const { code, out, complaint } = await run(withProgram(build.words), root + build.folder);
        expect([code, out + complaint]).toEqual([0, expect.any(String)]);
      }
      const words = withProgram(command).map((word) =>
        word === "URL" ? (client.isForTrtllm ? trtllm : server).url : word,
      );
      const { out, complaint } = await run([...words, ...(client.isRunByCheck ? checks : [])], root, env);
      const seen = out
        .split("\n")
        .filter((line) => line.startsWith('{"check"'))
        .map((line) => JSON.parse(line) as { check: string; error?: string });
      expect(seen.filter(({ error }) => error !== undefined)).toEqual([]);
      expect([seen.map(({ check }) => check), seen.length > 0 ? "" : complaint]).toEqual([[...checks], ""]);
      // The time limit includes the first build of Go, which compiles its library.
    },
    600_000,
  );
}

test("a toolchain that is missing or too old is not found, and a line names its clients", () => {
  const nowhere = { ...TOOLCHAINS.go, programs: [".venv-nowhere/bin/go", "no-such-go"] };
  const old = { name: "Bun", programs: [process.execPath], version: ["--version"], from: "npm" };
  expect(findToolchain(nowhere)).toBeNull();
  expect(findToolchain({ ...old, least: [99, 0] })).toBeNull();
  expect(findToolchain({ ...old, programs: ["no-such-bun", process.execPath], least: [1, 4] })).toBe(process.execPath);
  expect(missingLine(nowhere, ["one", "two"])).toEndWith("not counted: one, two");
  expect(isRecent("go version go1.22.3 linux/amd64", [1, 22])).toBe(true);
  expect(isRecent("go version go1.9 linux/amd64", [1, 22])).toBe(false);
  expect(isRecent("openjdk 21 2023-09-19", [17, 0])).toBe(true);
  expect(isRecent("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", [1, 80])).toBe(true);
  expect(isRecent("command not found", [1, 0])).toBe(false);
});
