/**
 * Checks that chats of real clients with `max_tokens` 4,096 end by themselves after the drawn number of tokens. Agents, which
 * take seconds to start, only run in the whole (`npx bun run test clients`).
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { seeded } from "../../src/base/random.ts";
import { naturalLength } from "../../src/text/answers/answers.ts";
import { parseOutputLengths } from "../../src/text/answers/length-forms.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { sized } from "../size.ts";

setDefaultTimeout(60_000);

const SEED = 4096;
const LENGTHS = "lognormal:mean=200,sigma=0.5";
const root = new URL("../../", import.meta.url).pathname;
let server: HostedServer;
/**
 * Returns the seed of the next request. These requests have no seed, so each gets the next one of `--seed`, in order of
 * arrival.
 */
let nextSeed: () => number;
beforeAll(async () => {
  const flags = ["--served-model-name", "m", "--timing", "none", "--disable-uvicorn-access-log"];
  // An agent sends tools. In this test no answer calls one.
  const tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--tool-call-share", "0"];
  server = await hosted([...flags, ...tools, "--seed", String(SEED), "--output-tokens", LENGTHS]);
  nextSeed = seeded(SEED);
});
afterAll(() => server.stop());

const SDKS = [
  ["openai", "stop"],
  ["openai, streamed", "stop"],
  ["openai, responses", "completed"],
  ["anthropic", "end_turn"],
  ["anthropic, streamed", "end_turn"],
];
const AGENTS = ["strands, openai", "strands, openai", "strands, anthropic", "strands, anthropic"];
type NaturalEnds = readonly [command: readonly string[], ends: readonly (readonly string[])[]];
const agents: NaturalEnds = [
  [".venv-agents/bin/python", "test/clients/python/strands_agent.py", "URL", "own-ends"],
  AGENTS.map((name) => [name, "end_turn"]),
];
const runs: readonly NaturalEnds[] = [
  [
    ["node", "test/clients/node/own-end.mjs", "URL"],
    [...SDKS, ["langchain", "stop"]],
  ],
  [[".venv/bin/python", "test/clients/python/own_end.py", "URL"], SDKS],
  ...sized("clients", { sample: [], whole: [agents] }),
];

for (const [command, ends] of runs) {
  const [program = ""] = command;
  // CI must have the virtual environments; on other machines they are optional.
  const missing = program.includes("/") && !existsSync(root + program);
  test.skipIf(missing && process.env.CI === undefined)(
    `answers for ${command.slice(0, 2).join(" ")} end by themselves`,
    async () => {
      const words = command.map((word) => (word === "URL" ? server.url : word));
      const child = Bun.spawn(words, { cwd: root, stdout: "pipe", stderr: "pipe" });
      const [out, complaint] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
      ]);
      const drawn = naturalLength(parseOutputLengths(LENGTHS)!, null);
      const wanted = ends.map(([client, end]) => ({ client, end, tokens: drawn(nextSeed()) }));
      const seen = out
        .split("\n")
        .filter((line) => line.startsWith('{"client"'))
        .map((line) => JSON.parse(line));
      expect([seen, seen.length > 0 ? "" : complaint]).toEqual([wanted, ""]);
    },
  );
}
