/**
 * Makes the folders of the two published packages in build/npm from this checkout: `llm-understudy` (the command, the server,
 * the library) and `llm-understudy-engine` (the engine alone). The bundles contain the code of all libraries, which NOTICE
 * names. So only Bun's program must be installed in addition, and the folder layout of the package manager does not matter.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { BUILT, bundled, commonJs, esModules, program } from "./bundles.ts";
import { writeNotice } from "./packed-notice.ts";
import { relinked, repositoryLink } from "./page-links.ts";

const root = new URL("../", import.meta.url).pathname;
const out = `${root}build/npm`;
const manifest = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
const bunVersion: string = manifest.dependencies.bun;

/** Names of the packages with Bun's program, one for each platform. These packages have no install script. */
const PLATFORMS: readonly string[] = Object.keys(
  JSON.parse(readFileSync(`${root}node_modules/bun/package.json`, "utf8")).optionalDependencies,
);

/** Entries of the program that runs on Bun. The entries of its threads are added. */
const PROGRAMS: Readonly<Record<string, string>> = {
  main: "src/main.ts",
  library: "src/embed/bun.ts",
  testing: "src/embed/testing.ts",
  child: "src/embed/child.ts",
  "replay-crash": "src/embed/replay-crash.ts",
};
/** Entries for Node and browsers. Each is also made as CommonJS, for `require` in Jest. */
const FACES: Readonly<Record<string, string>> = {
  index: "src/embed/index.ts",
  browser: "src/embed/browser.ts",
  testing: "src/embed/testing.ts",
  vitest: "src/embed/vitest.ts",
};

/** The man page, which npm installs with the command. */
const MAN_PAGE = "docs/understudy.1";

const types = `${root}build/types`;

/**
 * Returns the path of the type declarations that the compiler wrote for a source. Declarations of build/option-types are packed
 * in the folder in which their importers expect them.
 */
function emitted(path: string): string {
  const [ours, generated] = [path, path.replace(/^src\/embed\//, "build/option-types/")].map(
    (name) => `${types}/${name}.d.ts`,
  );
  return existsSync(ours!) ? ours! : generated!;
}

/** Writes the type declarations of the entries and of all files that these import, for ES modules and for CommonJS. */
function declarations(entries: readonly string[], to: string): void {
  const seen = new Set<string>();
  const take = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    // Remove type arguments of arrays such as `Uint8Array<ArrayBuffer>`, because compilers before TypeScript 5.7 do not accept
    // them.
    const text = readFileSync(emitted(path), "utf8")
      .replace(/\b(\w+Array)<ArrayBuffer(?:Like)?>/g, "$1")
      .replace(/(["'])(\.\.?\/[^"']*?)\.ts\1/g, "$1$2.js$1");
    for (const [, name] of text.matchAll(/["'](\.\.?\/[^"']*?)\.js["']/g)) take(join(dirname(path), name!));
    const place = `${to}/${path}`;
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(`${place}.d.ts`, text);
    writeFileSync(`${place}.d.cts`, text.replace(/(["'])(\.\.?\/[^"']*?)\.js\1/g, "$1$2.cjs$1"));
  };
  for (const entry of entries) take(entry.replace(/\.ts$/, ""));
}

/** Changes links to files that are not in the package, so that they lead to the repository. */
const linked = (text: string, path: string, isPacked: (target: string) => boolean): string =>
  relinked(text, path, (target) => (isPacked(target) ? null : repositoryLink(target)));

function documents(to: string): void {
  // Leave out documentation for those who change the code.
  const pages = [...new Bun.Glob("**/*.md").scanSync(`${root}docs`)].filter((name) => !name.startsWith("internals/"));
  const all = ["README.md", "CHANGELOG.md", ...pages.map((name) => `docs/${name}`)];
  copy(to, MAN_PAGE);
  for (const path of all) {
    mkdirSync(dirname(`${to}/${path}`), { recursive: true });
    const text = readFileSync(root + path, "utf8");
    writeFileSync(
      `${to}/${path}`,
      linked(text, path, (target) => target === "LICENSE" || all.includes(target)),
    );
  }
}

const ABOUT = ["version", "license", "type", "keywords", "homepage", "bugs", "repository", "engines"];
const about = Object.fromEntries(ABOUT.map((key) => [key, manifest[key]]));

const esm = (types: string, name: string) => ({ types: `./types/${types}.d.ts`, default: `./dist/${name}.js` });
const cjs = (types: string, name: string) => ({ types: `./types/${types}.d.cts`, default: `./dist/${name}.cjs` });
const both = (types: string, name: string) => ({ import: esm(types, name), require: cjs(types, name) });
const onBun = (types: string, name: string) => ({ types: `./types/${types}.d.ts`, default: `./server/${name}.js` });

function writeManifest(to: string, more: object): void {
  writeFileSync(`${to}/package.json`, `${JSON.stringify({ ...about, ...more }, null, 2)}\n`);
}

const copy = (to: string, ...paths: readonly string[]) => {
  for (const path of paths) cpSync(root + path, `${to}/${path}`);
};

async function stageEngine(to: string): Promise<void> {
  bundled.clear();
  const entries = { index: "src/embed/engine-index.ts", browser: "src/embed/engine-browser.ts" };
  // Minify names and leave out source maps, because they would be most of so small a package.
  await esModules(entries, `${to}/dist`, { minify: true });
  await commonJs({ index: entries.index }, `${to}/dist`, { minify: true });
  declarations(Object.values(entries), `${to}/types`);
  copy(to, "build/core.wasm", "build/answers.bin", "LICENSE");
  writeNotice(to, "llm-understudy-engine", { bundled: [...bundled] });
  writeFileSync(`${to}/README.md`, engineReadme());
  writeManifest(to, {
    name: "llm-understudy-engine",
    description: "The scheduling engine of llm-understudy on a clock that you move: continuous batching as vLLM's.",
    sideEffects: false,
    main: "./dist/index.cjs",
    module: "./dist/index.js",
    types: "./types/src/embed/engine-index.d.cts",
    exports: {
      ".": {
        browser: { import: esm("src/embed/engine-browser", "browser") },
        ...both("src/embed/engine-index", "index"),
      },
      "./core.wasm": "./build/core.wasm",
      "./answers.bin": "./build/answers.bin",
      "./package.json": "./package.json",
    },
  });
}

/** Returns the part of docs/reference/library.md about the engine. */
function engineReadme(): string {
  const text = readFileSync(`${root}docs/reference/library.md`, "utf8");
  const part = /^## The engine\n([\s\S]*?)(?=^## )/m.exec(text)![1]!;
  const named = part
    .replaceAll('"llm-understudy"', '"llm-understudy-engine"')
    .replaceAll("`llm-understudy/", "`llm-understudy-engine/");
  return `# llm-understudy-engine\n${linked(named, "docs/reference/library.md", () => false)}`;
}

async function stageServer(to: string): Promise<void> {
  bundled.clear();
  await program(PROGRAMS, `${to}/server`);
  await esModules(FACES, `${to}/dist`, { sourcemap: "linked" });
  await commonJs(FACES, `${to}/dist`);
  await commonJs(
    { "child-link": "src/embed/child-link.ts", "replay-crash": "src/embed/replay-crash.ts" },
    `${to}/dist`,
  );
  declarations(Object.values(FACES), `${to}/types`);
  copy(to, ...BUILT.map((name) => `build/${name}`), "LICENSE");
  documents(to);
  command(to);
  writeNotice(to, "llm-understudy", { bundled: [...bundled], hasVocabulary: true });
  // Module resolvers that ignore `exports` look for a folder of that name.
  for (const name of ["testing", "vitest"]) {
    mkdirSync(`${to}/${name}`);
    const found = { main: `../dist/${name}.cjs`, types: `../types/src/embed/${name}.d.cts` };
    writeFileSync(`${to}/${name}/package.json`, `${JSON.stringify(found, null, 2)}\n`);
  }
  writeManifest(to, {
    name: manifest.name,
    description: manifest.description,
    sideEffects: false,
    bin: manifest.bin,
    man: `./${MAN_PAGE}`,
    main: "./dist/index.cjs",
    module: "./dist/index.js",
    types: "./types/src/embed/index.d.cts",
    exports: {
      ".": {
        bun: onBun("src/embed/index", "library"),
        browser: both("src/embed/browser", "browser"),
        ...both("src/embed/index", "index"),
      },
      "./testing": { bun: onBun("src/embed/testing", "testing"), ...both("src/embed/testing", "testing") },
      "./vitest": both("src/embed/vitest", "vitest"),
      "./core.wasm": "./build/core.wasm",
      "./answers.bin": "./build/answers.bin",
      "./package.json": "./package.json",
    },
    optionalDependencies: Object.fromEntries(PLATFORMS.map((name) => [name, bunVersion])),
    peerDependencies: { bun: "*", ...manifest.peerDependencies },
    peerDependenciesMeta: { bun: { optional: true }, ...manifest.peerDependenciesMeta },
    // The files must not stay in an archive, as with Yarn's Plug'n'Play, because Bun reads them itself.
    preferUnplugged: true,
  });
}

/** The file that the command starts in a checkout, as written in bin/understudy. */
const RUN = "../scripts/run.ts";

/** Copies the command, and makes it start the bundle in place of the sources. */
function command(to: string): void {
  for (const name of readdirSync(`${root}bin`)) copy(to, `bin/${name}`);
  const path = `${to}/bin/understudy`;
  const text = readFileSync(path, "utf8");
  if (!text.includes(RUN)) throw new Error(`bin/understudy does not start ${RUN}`);
  writeFileSync(path, text.replace(RUN, "../server/main.js"), { mode: 0o755 });
}

// Delete old results, because the compiler keeps declarations of sources that no longer exist.
for (const folder of [out, types]) rmSync(folder, { recursive: true, force: true });
const tsc = [process.execPath, `${root}node_modules/typescript/bin/tsc`];
// Several threads would each check shared files again, and take half as much processor time more in sum.
const compiled = Bun.spawn([...tsc, "-p", "tsconfig.build.json", "--singleThreaded"], {
  cwd: root,
  stdio: ["ignore", "inherit", "inherit"],
});
if ((await compiled.exited) !== 0) process.exit(1);
await stageServer(`${out}/llm-understudy`);
await stageEngine(`${out}/llm-understudy-engine`);
