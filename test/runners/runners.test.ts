/**
 * Do servers of the package start and end in everybody's tests? Each runner has three files of tests, one that closes its
 * server, one that forgets to, one whose tests share a server, and must end by itself with all tests passed. Where a test
 * of a shared server fails, the runner shows what the server saw. Vitest and bun test also put a client through disturbed streams.
 * Runners, other versions of Node and Deno come from their own packages, into a folder of their own.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { done, packed, run } from "../packed.ts";
import { drawn, figure, seed, sized } from "../size.ts";

const root = new URL("../../", import.meta.url).pathname;
const NODES = { 22: "22.23.3", 24: "24.21.0" };
const VITEST = ["vitest@4.1.12", "jsdom@27.4.0"];
const JEST = ["jest@30.5.2", "jest-environment-jsdom@30.5.2", "@happy-dom/jest-environment@20.14.5"];
const OTHERS = [
  ...Object.entries(NODES).map(([major, version]) => `node${major}@npm:node-linux-${process.arch}@${version}`),
  "deno@2.9.6",
];

interface Runner {
  readonly name: string;
  /** Behind Node's program, but for those that are programs themselves. */
  readonly command: readonly string[];
  /** How a file of tests begins: its names are `createServer`, `withServer`, `http`, `test`, `afterAll`. */
  readonly head: string;
  readonly file: (name: string) => string;
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly module?: boolean;
  /** How a file's tests share a server; a text that gives `shared(name, act)`. */
  readonly shared?: string;
  /** The program, where it is not Node. */
  readonly program?: () => string;
  /** Where its tests in TypeScript have `expect` and `test` from; absent: they have none. */
  readonly typed?: string;
}

let all: Awaited<ReturnType<typeof packed>>;
const tools = () => join(all.folder, "tools/node_modules");

const IMPORTS = 'import http from "node:http";\nimport { createServer, withServer } from "llm-understudy";\n';
const REQUIRES =
  'const http = require("node:http");\nconst { createServer, withServer } = require("llm-understudy");\n';
/** On a busy machine the first start of a process may take longer than the 5 s of a test. */
const SLOW = "--testTimeout=30000";
const SHARED = 'const shared = (name, act) => test(name, withServer({ timing: "none" })(act));\n';
const FIXTURE = `import { serverFixture } from "llm-understudy/vitest";
const fixed = test.extend({ server: serverFixture({ timing: "none" }) });
const shared = (name, act) => fixed(name, ({ server }) => act(server));
`;
const vitest = (name: string, ...args: string[]): Runner => ({
  name: `Vitest ${name}`,
  command: ["vitest/vitest.mjs", "run", "--no-cache", SLOW, ...args],
  head: `${IMPORTS}import { afterAll, test } from "vitest";\n`,
  file: (one) => `${one}.test.mjs`,
  shared: FIXTURE,
  typed: "vitest",
});
const jest = (name: string, module: boolean, ...args: string[]): Runner => ({
  name: `Jest ${name}`,
  command: ["jest/bin/jest.js", "--runInBand", "--no-cache", SLOW, ...args],
  head: module ? `${IMPORTS}import { afterAll, test } from "@jest/globals";\n` : REQUIRES,
  file: (one) => `${one}.test.js`,
  module,
  ...(module ? { env: { NODE_OPTIONS: "--experimental-vm-modules" } } : {}),
});

const ON_NODE: readonly Runner[] = [
  {
    name: "node:test",
    command: ["--test"],
    head: `${IMPORTS}import { after as afterAll, test } from "node:test";\n`,
    file: (one) => `${one}.test.mjs`,
  },
  vitest("forks", "--pool=forks"),
  vitest("threads", "--pool=threads"),
  vitest("vmThreads", "--pool=vmThreads"),
  vitest("jsdom", "--environment=jsdom"),
  jest("require", false),
  jest("import", true),
  jest("jsdom", false, "--env=jsdom"),
  jest("jsdom, import", true, "--env=jsdom"),
  jest("happy-dom", false, "--env=@happy-dom/jest-environment"),
];
const OWN: readonly Runner[] = [
  {
    name: "bun test",
    program: () => process.execPath,
    command: ["test"],
    head: `${IMPORTS}import { afterAll, test } from "bun:test";\n`,
    file: (one) => `${one}.test.mjs`,
    typed: "bun:test",
  },
  {
    name: "Deno",
    program: () => join(tools(), `@deno/linux-${process.arch}-glibc/deno`),
    command: ["test", "-A", "--no-check", "--node-modules-dir=manual"],
    head: `${IMPORTS}const ends = [];\nconst test = (name, fn) => Deno.test({ name, fn, sanitizeOps: false, sanitizeResources: false });\nconst afterAll = (act) => Deno.test.afterAll(act);\n`,
    file: (one) => `${one}_test.mjs`,
  },
];

interface Case {
  readonly node: 20 | 22 | 24;
  readonly runner: Runner;
}
const CASES: readonly Case[] = [
  ...([20, 22, 24] as const).flatMap((node) => ON_NODE.map((runner) => ({ node, runner }))),
  ...OWN.map((runner) => ({ node: 20 as const, runner })),
];
/** Those that are here without an install: no package beside ours and what it needs. */
const HERE = CASES.filter(({ node, runner }) => node === 20 && ["node:test", "bun test"].includes(runner.name));
const chosen = sized("runners", { sample: drawn(HERE, 2, seed), whole: CASES });

/** Asks as a client does that needs no browser's names: those of jsdom would count origins. */
const BODY = `
const ask = (server) =>
  new Promise((settle, failed) => {
    const headers = { "content-type": "application/json" };
    const asked = http.request(server.url + "/v1/completions", { method: "POST", headers, agent: false }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; }).on("end", () => settle(text));
    });
    asked.on("error", failed).end(JSON.stringify({ prompt: "Hello", max_tokens: 5, ignore_eos: true, stream: true }));
  });
const whole = async (server) => {
  await server.ready;
  const text = await ask(server);
  const [{ path, tokens }] = await server.requests();
  const { generationTokens } = await server.snapshot();
  const shown = (await server.metrics()).value("vllm:generation_tokens_total");
  const seen = [text.split("data: ").length - 1, text.trim().endsWith("[DONE]"), path, tokens, generationTokens, shown];
  if (JSON.stringify(seen) !== '[6,true,"/v1/completions",5,5,5]') throw new Error(JSON.stringify(seen));
};
`;
const CLOSES = `
const server = createServer({ timing: "none" });
afterAll(() => server.close());
test("a server that is closed", () => whole(server));
test("a wrong option is a TypeError of this realm", () => {
  let error;
  try { createServer({ maxNumSeq: 4 }); } catch (thrown) { error = thrown; }
  if (!(error instanceof TypeError)) throw new Error(String(error));
});
`;
const FORGETS = 'test("a server that is forgotten", () => whole(createServer({ timing: "none" })));\n';

const SHARES = `
shared("the first that shares", whole);
shared("the second, with a server that is new to it", whole);
`;
const FAILS = `
shared("a test that fails", async (server) => {
  await whole(server);
  throw new Error("on purpose");
});
`;

/** The ten lines of the documentation that put a client through disturbed streams; in the sample through two faults. */
const STRESS = /```ts\n(import \{ expect, test \} from "vitest";[\s\S]*?)```/
  .exec(readFileSync(`${root}docs/library.md`, "utf8"))![1]!
  .replace(/faults: .*? \}/, (all) => sized("runners", { sample: 'faults: ["B4", "E6"] }', whole: all }));

/** A correct client, as the reader's own. */
async function writeClient(folder: string): Promise<void> {
  const entry = join(all.folder, "my-client-of.ts");
  await Bun.write(
    entry,
    `import { client } from "${root}test/tools/stress/broken.ts";
export async function ask(url) {
  const { text, finish, error } = await client({})({ url, signal: AbortSignal.timeout(20_000) });
  if (error !== null || finish === null) throw new Error(error ?? "incomplete");
  return text;
}`,
  );
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "node" });
  await Bun.write(join(folder, "my-client.ts"), await outputs[0]!.text());
}

/** The Vitest program of the documentation. */
const EXAMPLE = ["client.js", "client.test.js"];

beforeAll(async () => {
  all = await packed();
  const install = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
  mkdirSync(join(all.folder, "tools"));
  const whole = chosen.length > HERE.length;
  const others = whole ? [...VITEST, ...JEST, ...OTHERS] : [];
  await done(
    [...install, "--prefix", ".", all.server, "fast-check@4.10.2", ...others],
    join(tools(), ".."),
    {},
    900_000,
  );
}, 1_000_000);

afterAll(() => all?.remove(), 60_000);

function nodeOf(node: Case["node"]): string {
  return node === 20 ? "node" : join(tools(), `node${node}/bin/node`);
}

test.each(chosen.map((one) => [one.node, one.runner.name, one] as const))(
  "Node %i, %s",
  async (node, name, { runner }) => {
    const folder = join(all.folder, `${node}-${name.replaceAll(/\W+/g, "-")}`);
    const manifest = {
      private: true,
      ...(runner.module ? { type: "module" } : {}),
      jest: { testMatch: ["**/*.test.js"] },
    };
    await Bun.write(join(folder, "package.json"), JSON.stringify(manifest));
    await Bun.write(join(folder, runner.file("closes")), runner.head + BODY + CLOSES);
    await Bun.write(join(folder, runner.file("forgets")), runner.head + BODY + FORGETS);
    const sharing = runner.head + (runner.shared ?? SHARED) + BODY;
    await Bun.write(join(folder, runner.file("shares")), sharing + SHARES);
    if (runner.typed !== undefined) {
      await writeClient(folder);
      await Bun.write(join(folder, "stress.test.ts"), STRESS.replace('"vitest"', `"${runner.typed}"`));
    }
    symlinkSync(tools(), join(folder, "node_modules"));
    const [first, ...rest] = runner.command as [string, ...string[]];
    const words = first.includes("/") ? [join(tools(), first), ...rest] : runner.command;
    const command = [runner.program?.() ?? nodeOf(node), ...words];
    const began = performance.now();
    const { code, out, err } = await run(command, folder, runner.env, 120_000);
    expect({ code, said: code === 0 ? "" : out + err }).toEqual({ code: 0, said: "" });
    figure(`Node ${node}, ${name}`, Math.round((performance.now() - began) / 100) / 10);
    for (const one of ["closes", "forgets", "shares"]) rmSync(join(folder, runner.file(one)));
    rmSync(join(folder, "stress.test.ts"), { force: true });
    await Bun.write(join(folder, runner.file("fails")), sharing + FAILS);
    const failed = await run(command, folder, runner.env, 120_000);
    expect(failed.code).not.toBe(0);
    expect(failed.out + failed.err).toMatch(
      /on purpose\s+the server saw 1 requests; ms after the first:\s+1\. .* POST \/v1\/completions: 200, answered, 5 tokens/,
    );
  },
  150_000,
);

/** Vitest is there where all runners are. */
const ofVitest = chosen.length > HERE.length ? EXAMPLE.filter((name) => name.includes(".test.")) : [];

test.each(ofVitest)(
  "examples/programs/%s",
  async () => {
    const folder = join(all.folder, "example");
    mkdirSync(folder);
    for (const name of EXAMPLE) cpSync(`${root}examples/programs/${name}`, join(folder, name));
    await Bun.write(join(folder, "package.json"), '{"private": true, "type": "module"}');
    symlinkSync(tools(), join(folder, "node_modules"));
    const { code, out, err } = await run(
      ["node", join(tools(), "vitest/vitest.mjs"), "run", "--no-cache", SLOW],
      folder,
    );
    expect({ code, said: code === 0 ? "" : out + err }).toEqual({ code: 0, said: "" });
  },
  150_000,
);
