/**
 * Checks that servers of the package start and end in each test runner. Each runner gets three test files: one closes its
 * server, one forgets to, and one shares a server between tests. The runner must exit by itself with all tests passed. If a
 * test with a shared server fails, the runner must show the requests of the server. Vitest and bun test also run a client
 * against disturbed streams. Runners, other versions of Node and Deno are installed from their packages into a separate
 * folder.
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
  /** Arguments for Node's program. For other programs, their arguments. */
  readonly command: readonly string[];
  /** Start of a test file. It defines `createServer`, `withServer`, `http`, `test` and `afterAll`. */
  readonly head: string;
  readonly file: (name: string) => string;
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly module?: boolean;
  /** Code that defines `shared(name, act)`, with which the tests of a file share a server. */
  readonly shared?: string;
  /** Returns the program if it is not Node. */
  readonly program?: () => string;
  /** Module from which tests in TypeScript import `expect` and `test`. Absent if the runner has no such tests. */
  readonly typed?: string;
}

let all: Awaited<ReturnType<typeof packed>>;
const tools = () => join(all.folder, "tools/node_modules");

const IMPORTS = 'import http from "node:http";\nimport { createServer, withServer } from "llm-understudy";\n';
const REQUIRES =
  'const http = require("node:http");\nconst { createServer, withServer } = require("llm-understudy");\n';
/** On a busy machine the first start of a process may take longer than the default timeout of 5 s. */
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
  file: (name) => `${name}.test.mjs`,
  shared: FIXTURE,
  typed: "vitest",
});
const jest = (name: string, module: boolean, ...args: string[]): Runner => ({
  name: `Jest ${name}`,
  command: ["jest/bin/jest.js", "--runInBand", "--no-cache", SLOW, ...args],
  head: module ? `${IMPORTS}import { afterAll, test } from "@jest/globals";\n` : REQUIRES,
  file: (name) => `${name}.test.js`,
  module,
  ...(module ? { env: { NODE_OPTIONS: "--experimental-vm-modules" } } : {}),
});

const ON_NODE: readonly Runner[] = [
  {
    name: "node:test",
    command: ["--test"],
    head: `${IMPORTS}import { after as afterAll, test } from "node:test";\n`,
    file: (name) => `${name}.test.mjs`,
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
    file: (name) => `${name}.test.mjs`,
    typed: "bun:test",
  },
  {
    name: "Deno",
    program: () => join(tools(), `@deno/linux-${process.arch}-glibc/deno`),
    command: ["test", "-A", "--no-check", "--node-modules-dir=manual"],
    head: `${IMPORTS}const ends = [];\nconst test = (name, fn) => Deno.test({ name, fn, sanitizeOps: false, sanitizeResources: false });\nconst afterAll = (act) => Deno.test.afterAll(act);\n`,
    file: (name) => `${name}_test.mjs`,
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
/** Cases that need no further packages. */
const HERE = CASES.filter(({ node, runner }) => node === 20 && ["node:test", "bun test"].includes(runner.name));
const chosen = sized("runners", { sample: drawn(HERE, 2, seed), whole: CASES });

/** A client that needs no browser's names, because those of jsdom would apply the rules on origins. */
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
shared("the second, with a reset server", whole);
`;
const FAILS = `
shared("a test that fails", async (server) => {
  await whole(server);
  throw new Error("on purpose");
});
`;

/** Tests in Vitest with a front end, which a stub stands for. */
const FRONT = `import { expect, test as base } from "vitest";
import { frontFixture } from "llm-understudy/vitest";
const command = ${JSON.stringify([process.execPath, `${root}test/cli/front/stub-front.ts`, "serve", "m"])};
const test = base.extend({ front: frontFixture({ command, engine: { timing: "none" } }) });
for (const name of ["first", "second"])
  test(\`the \${name} test with a front end\`, async ({ front }) => {
    expect(await front.output()).toContain("ready to accept requests");
    expect(await front.engine.idle()).toMatchObject({ running: 0 });
  });
`;

/** The ten lines of the documentation that run a client against disturbed streams. The sample uses two faults. */
const STRESS = /```ts\n(import \{ expect, test \} from "vitest";[\s\S]*?)```/
  .exec(readFileSync(`${root}docs/how-to/tests.md`, "utf8"))![1]!
  .replace(/faults: .*? \}/, (all) => sized("runners", { sample: 'faults: ["B4", "E6"] }', whole: all }));

/** Writes a correct client, which stands for the reader's client. */
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

/** Files of the documentation's Vitest program. */
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

test.each(chosen.map((entry) => [entry.node, entry.runner.name, entry] as const))(
  "with Node %i, tests in %s can use the server",
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
    if (runner.typed === "vitest") await Bun.write(join(folder, runner.file("front")), FRONT);
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
    expect({ code, output: code === 0 ? "" : out + err }).toEqual({ code: 0, output: "" });
    figure(`Node ${node}, ${name}`, Math.round((performance.now() - began) / 100) / 10);
    for (const name of ["closes", "forgets", "shares", "front"])
      rmSync(join(folder, runner.file(name)), { force: true });
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

/** Vitest is only installed when all runners are. */
const ofVitest = chosen.length > HERE.length ? EXAMPLE.filter((name) => name.includes(".test.")) : [];

test.each(ofVitest)(
  "examples/programs/%s passes in Vitest",
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
    expect({ code, output: code === 0 ? "" : out + err }).toEqual({ code: 0, output: "" });
  },
  150_000,
);
