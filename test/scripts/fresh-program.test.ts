/** Tests that a checkout starts a bundle of its sources that is never outdated, damaged or incomplete. */
import { afterAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BUILT } from "../../scripts/bundles.ts";

setDefaultTimeout(60_000);

const root = new URL("../../", import.meta.url).pathname;
const checkout = mkdtempSync(join(tmpdir(), "understudy-checkout-"));
afterAll(() => rmSync(checkout, { recursive: true }));

const THREADS = ["base/time/clock", "text/tokens/encoder", "metrics/"].map((name) =>
  name.endsWith("/") ? `${name}worker.ts` : `${name}-worker.ts`,
);
/** A program as small as can be with the parts that the bundler knows by name. */
const SOURCES: Readonly<Record<string, string>> = {
  "src/main.ts": `import { SAID } from "./said.ts";
if (process.argv[2] === "serve") (await import("./cli/serve/serve.ts")).runServe();
else console.log(SAID);`,
  "src/said.ts": 'export const SAID = "first";',
  "src/cli/serve/serve.ts": `import { SAID } from "../../said.ts";
export const threads = [${THREADS.map((path) => `new URL("../../${path}", import.meta.url)`)}];
export const runServe = () => console.log(\`serves \${SAID}\`);`,
  ...Object.fromEntries(THREADS.map((path) => [`src/${path}`, "self.onmessage = () => {};"])),
  "assembly/layout.ts": "export {};",
  "package.json": '{ "type": "module" }',
  ...Object.fromEntries(BUILT.map((name) => [`build/${name}`, ""])),
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(checkout, path)), { recursive: true });
  writeFileSync(join(checkout, path), text);
}

async function run(command = "version"): Promise<string> {
  const child = Bun.spawn([process.execPath, join(checkout, "scripts/run.ts"), command], {
    cwd: tmpdir(),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return out + err;
}

const programs = () => readdirSync(join(checkout, "build/programs"));
const manifest = () => JSON.parse(readFileSync(join(checkout, "build/program.json"), "utf8"));

/** Changes a text in a file of the bundle in a way that no look at the disk tells. */
function mark(from: string, to: string): void {
  for (const path of Object.keys(manifest().files).filter((file) => file.startsWith("build/programs/"))) {
    const file = join(checkout, path);
    const text = readFileSync(file, "latin1");
    if (!text.includes(`"${from}"`)) continue;
    const { atime, mtime } = statSync(file);
    writeFileSync(file, text.replaceAll(`"${from}"`, `"${to}"`), "latin1");
    utimesSync(file, atime, mtime);
  }
}

beforeEach(() => {
  rmSync(checkout, { recursive: true });
  cpSync(`${root}scripts`, join(checkout, "scripts"), { recursive: true });
  symlinkSync(`${root}node_modules`, join(checkout, "node_modules"));
  for (const [path, text] of Object.entries(SOURCES)) write(path, text);
});

test("the first start builds the bundle, and the next start runs it", async () => {
  expect(await run()).toBe("first\n");
  expect(programs()).toHaveLength(1);
  expect(await run("serve")).toBe("serves first\n");
  expect(programs()).toHaveLength(1);
  mark("first", "again");
  expect(await run()).toBe("again\n");
});

test("two simultaneous starts both run, and leave one bundle in use", async () => {
  expect(await Promise.all([run(), run(), run("serve")])).toEqual(["first\n", "first\n", "serves first\n"]);
  const made = programs().length;
  expect(made).toBeGreaterThan(0);
  expect(await run()).toBe("first\n");
  expect(programs()).toHaveLength(made);
});

const CHANGES: readonly (readonly [name: string, change: () => void, says: string])[] = [
  ["a source is newer", () => write("src/said.ts", 'export const SAID = "second";'), "second\n"],
  [
    "a source is another one of the same age",
    () => {
      const { atime, mtime } = statSync(join(checkout, "src/said.ts"));
      write("src/said.ts", 'export const SAID = "other one";');
      utimesSync(join(checkout, "src/said.ts"), atime, mtime);
    },
    "other one\n",
  ],
  ["a built file is newer", () => write("build/core.wasm", "newer"), "first\n"],
  ["a package was installed", () => write("bun.lock", "{}"), "first\n"],
];

test.each(CHANGES)("%s: the bundle is built again", async (_, change, says) => {
  write("bun.lock", "");
  await run();
  const [before] = programs();
  mark("first", "stale");
  change();
  expect(await run()).toBe(says);
  expect(programs()).toHaveLength(2);
  expect(manifest().main).not.toContain(before);
});

const DAMAGE: readonly (readonly [name: string, harm: (folder: string) => void])[] = [
  ["the bundle's entry is cut", (folder) => truncateSync(join(folder, "server/main.js"), 10)],
  ["the server's text is cut", (folder) => truncateSync(join(folder, "server/serve.js"), 200)],
  ["its bytecode is cut", (folder) => truncateSync(join(folder, "server/serve.js.jsc"), 200)],
  ["its folder is gone", (folder) => rmSync(folder, { recursive: true })],
  ["its manifest is half written", () => truncateSync(join(checkout, "build/program.json"), 100)],
  ["its manifest is of another time", () => write("build/program.json", '{"main":1}')],
];

test.each(DAMAGE)("%s: the bundle is replaced", async (_, harm) => {
  await run();
  mark("first", "stale");
  harm(join(checkout, "build/programs", programs()[0]!));
  expect(await run("serve")).toBe("serves first\n");
  expect(await run()).toBe("first\n");
});

test("the last six bundles are kept", async () => {
  for (let i = 0; i < 8; i++) {
    write("src/said.ts", `export const SAID = "${i}";`);
    expect(await run()).toBe(`${i}\n`);
  }
  expect(programs()).toHaveLength(6);
});

test("if the bundle cannot be built, the sources run", async () => {
  write("build/programs", "a file where the folder should be");
  expect([await run(), await run("serve")]).toEqual(["first\n", "serves first\n"]);
  rmSync(join(checkout, "build/programs"));
  write("src/cli/serve/serve.ts", "export const broken = ;");
  expect(await run()).toBe("first\n");
  expect(await run("serve")).toContain("Unexpected ;");
  rmSync(join(checkout, "build"), { recursive: true });
  expect(await run()).toBe("first\n");
});

test("the bundle of this checkout finds its pinned clients", async () => {
  const list = () => Bun.$`${process.execPath} scripts/run.ts stress --client list`.cwd(root).text();
  await list();
  // The first start made the bundle, so that this one runs it.
  expect(existsSync(`${root}build/program.json`)).toBe(true);
  expect(await list()).toContain("openai-node\n");
}, 60_000);
