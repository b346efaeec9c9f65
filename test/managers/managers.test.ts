/**
 * Installs the tarball with each package manager and its settings, and checks that a server starts, streams and closes, and
 * that the command runs. The package managers are installed from their packages, each project into a separate folder.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { done, packed, run } from "../packed.ts";
import { drawn, figure, seed, sized } from "../size.ts";

/** Packages of the package managers. The sample only uses managers that are already installed. */
const TOOLS = ["yarn@1.22.22", "pnpm@10.18.3", "@yarnpkg/cli-dist@4.10.3"];

interface Manager {
  readonly name: string;
  readonly install: readonly string[];
  /** Files of the project in addition to its package.json. */
  readonly files?: Readonly<Record<string, string>>;
  /** Command that runs a program in the project. */
  readonly node?: readonly string[];
  readonly command?: readonly string[];
}

let all: Awaited<ReturnType<typeof packed>>;
const tool = (path: string) => join(all.folder, "tools/node_modules", path);

const yarn4 = (linker: string) => `nodeLinker: ${linker}\nenableGlobalCache: false\nenableTelemetry: false\n`;
const BERRY = ["node", "@yarnpkg/cli-dist/bin/yarn.js"];

const MANAGERS: readonly Manager[] = [
  { name: "npm", install: ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund"] },
  {
    name: "npm --ignore-scripts",
    install: ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"],
  },
  { name: "pnpm", install: ["node", "pnpm/bin/pnpm.cjs", "install"] },
  {
    name: "pnpm without peers",
    install: ["node", "pnpm/bin/pnpm.cjs", "install"],
    files: { ".npmrc": "auto-install-peers=false\nstrict-peer-dependencies=true\n" },
  },
  { name: "Yarn 1", install: ["node", "yarn/bin/yarn.js", "install", "--no-lockfile", "--non-interactive"] },
  {
    name: "Yarn 4, node_modules",
    install: [...BERRY, "install"],
    files: { ".yarnrc.yml": yarn4("node-modules"), "yarn.lock": "" },
  },
  {
    name: "Yarn 4, Plug'n'Play",
    install: [...BERRY, "install"],
    files: { ".yarnrc.yml": yarn4("pnp"), "yarn.lock": "" },
    node: [...BERRY, "node"],
    command: [...BERRY, "understudy"],
  },
  { name: "bun", install: [process.execPath, "install"] },
];

const here = MANAGERS.filter(({ install }) => !install.includes("node"));
const chosen = sized("managers", { sample: drawn(here, 1, seed), whole: MANAGERS });

/** A program that streams an answer from each of two servers and prints the results. */
const PROGRAM = `
import { createServer } from "llm-understudy";
const said = [];
for (let i = 0; i < 2; i++) {
  const server = createServer({ timing: "none" });
  await server.ready;
  const body = JSON.stringify({ prompt: "Hello", max_tokens: 5, ignore_eos: true, stream: true });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(server.url + "/v1/completions", { method: "POST", headers, body });
  const text = await answer.text();
  said.push(answer.status, text.split("data: ").length - 1, text.trim().endsWith("[DONE]"));
  await server.close();
}
console.log(JSON.stringify(said));
`;

beforeAll(async () => {
  all = await packed();
  if (chosen.every(({ install }) => !install.includes("node"))) return;
  mkdirSync(join(all.folder, "tools"));
  await done(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", ...TOOLS], tool(".."));
}, 240_000);

afterAll(() => all?.remove(), 60_000);

const placed = (words: readonly string[]) => words.map((word) => (/\/bin\/[\w.]+js$/.test(word) ? tool(word) : word));

test.each(chosen.map((manager) => [manager.name, manager] as const))(
  "%s installs the package, and a server starts, streams and closes",
  async (name, { install, files = {}, node = ["node"], command = ["node_modules/.bin/understudy"] }) => {
    const folder = join(all.folder, name.replaceAll(/\W+/g, "-"));
    const manifest = { private: true, type: "module", dependencies: { "llm-understudy": `file:${all.server}` } };
    const written = { "package.json": JSON.stringify(manifest), "program.mjs": PROGRAM, ...files };
    for (const [file, text] of Object.entries(written)) await Bun.write(join(folder, file), text);
    await done(placed(install), folder, { YARN_ENABLE_IMMUTABLE_INSTALLS: "false" });
    const { out } = await done([...placed(node), "program.mjs"], folder);
    expect(JSON.parse(out)).toEqual([200, 6, true, 200, 6, true]);
    const { version } = await import("../../package.json");
    expect(await run([...placed(command), "version"], folder)).toMatchObject({ code: 0, out: `${version}\n` });
    figure(name, "passed");
  },
  240_000,
);
