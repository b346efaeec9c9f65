/** Bundles programs: all libraries go into the bundle, and the files that the program loads by a path lie next to it. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { BunPlugin } from "bun";

const root = new URL("../", import.meta.url).pathname;

/** Files and folders that sources load by a path, and that are not code of the bundle, by their names next to the bundle. */
const beside = new Map<string, string>();
const LOADED = /new URL\((["`])(\.[^"`]*)\1, import\.meta\.url\)/g;

/** Threads and processes that the sources start, by the names that `renamed` gives them. */
function threads(): Record<string, string> {
  const found: Record<string, string> = {};
  for (const path of new Bun.Glob("src/**/*.ts").scanSync({ cwd: root })) {
    for (const [, , to] of readFileSync(root + path, "utf8").matchAll(LOADED)) {
      if (!to!.endsWith(".ts")) continue;
      const target = join(dirname(path), to!);
      found[`${basename(dirname(target))}-${basename(target, ".ts")}`] = target;
    }
  }
  return found;
}

/** `new URL("./x.ts", import.meta.url)`, as the bundle has it: threads lie next to their chunk, built files a folder up. */
function renamed(path: string, text: string): string {
  const imports = /import (\w+) from "(?:\.\.\/)+build\/(.*)" with \{ type: "file" \};/g;
  const files = 'const $1 = Bun.fileURLToPath(new URL("../build/$2", import.meta.url));';
  return text.replace(imports, files).replace(LOADED, (whole, quote, to: string) => {
    if (/^\.\.\/(server|build)\//.test(to)) return whole;
    const built = /^(?:\.\.\/)+build\/(.*)$/.exec(to);
    const target = join(dirname(path), to);
    const flat = `${basename(dirname(target))}-${basename(target).replace(/\.ts$/, ".js")}`;
    if (!built && !to.endsWith(".ts")) beside.set(flat, target);
    const name = built ? `../build/${built[1]}` : `./${flat}`;
    return `new URL(${quote}${name}${quote}, import.meta.url)`;
  });
}

/** Packages whose code is in a bundle. */
export const bundled = new Set<string>();

/** The part of a program that every server loads. */
const SERVE = "src/cli/serve/serve.ts";
/** Threads that a server starts before the first scrape, by the names that `renamed` gives them. */
const EARLY_THREADS = ["time-clock-worker", "tokens-encoder-worker", "metrics-worker"];

/** Libraries that no start needs, by the names of their files next to the bundle. Only ES modules keep these names. */
const LIBRARIES: Readonly<Record<string, string>> = {
  "library-elysia": "elysia",
  "library-re2js": "re2js",
  "library-regexpp": "@eslint-community/regexpp",
  "library-jinja": "@huggingface/jinja",
  "library-tokenizers": "@huggingface/tokenizers",
};

/** Leaves the libraries out of a bundle with bytecode, which is read as a whole. */
const withoutLibraries: BunPlugin = {
  name: "without libraries",
  setup(build) {
    for (const [file, library] of Object.entries(LIBRARIES))
      build.onResolve({ filter: new RegExp(`^${library}$`) }, () => ({ path: `./${file}.js`, external: true }));
  },
};

const plugin: BunPlugin = {
  name: "packed",
  setup(build) {
    build.onResolve({ filter: /\/cli\/serve\/serve\.ts$/ }, ({ importer }) =>
      importer === `${root}src/main.ts` ? { path: "./serve.js", external: true } : undefined,
    );
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => ({
      contents: renamed(path, await Bun.file(path).text()),
      loader: "ts",
    }));
    build.onLoad({ filter: /\/node_modules\/.*\.[cm]?js$/ }, ({ path }) => {
      const name = /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
      if (name) bundled.add(name);
      return undefined;
    });
  },
};

type Bundle = Partial<Parameters<typeof Bun.build>[0]> & {
  readonly entries: Readonly<Record<string, string>>;
  readonly to: string;
};

/** Files of `build/` that a server reads. */
export const BUILT: readonly string[] = [
  ...["core.wasm", "core.debug.wasm", "trtllm.wasm", "trtllm.debug.wasm"],
  ...["answers.bin", "vocabulary.bin", "report.js", "report.css"],
];

/**
 * Bundles the program that runs on Bun: these entries, and the files of its threads next to them. A server and its first
 * threads have a file each, with its bytecode. A start from source text takes 45 ms more, most of it in the parser. Bun runs
 * the text if the bytecode is absent, damaged, or made by another version. The format is CommonJS because Bun 1.4.5 has
 * bytecode of ES modules only in executables.
 */
export async function program(entries: Readonly<Record<string, string>>, to: string): Promise<void> {
  const others = threads();
  const early: Record<string, string> = entries.main === undefined ? {} : { serve: SERVE };
  for (const name of EARLY_THREADS) {
    early[name] = others[name]!;
    delete others[name];
  }
  await bundle({ entries: { ...entries, ...others, ...LIBRARIES }, to, target: "bun", splitting: true });
  await bundle({
    ...{ entries: early, to, target: "bun", format: "cjs", bytecode: true },
    plugins: [withoutLibraries],
    banner: "const HERE = Bun.pathToFileURL(__filename).href;",
    define: { "import.meta.url": "HERE" },
  });
}

/** All files of a bundle lie in one folder, so that what they load is found from each of them. */
async function bundle({ entries, to, ...options }: Bundle): Promise<void> {
  // A name by which the same sources always make the same bundle; two may be made at once.
  const stubs = `${root}build/entries-${to.slice(root.length).replaceAll("/", "-")}`;
  rmSync(stubs, { recursive: true, force: true });
  mkdirSync(stubs, { recursive: true });
  for (const [name, path] of Object.entries(entries))
    writeFileSync(`${stubs}/${name}.ts`, `export * from "${path.includes(".ts") ? "../../" : ""}${path}";\n`);
  const made = await Bun.build({
    entrypoints: Object.keys(entries).map((name) => `${stubs}/${name}.ts`),
    root: stubs,
    outdir: to,
    external: ["fast-check", "vitest"],
    minify: { whitespace: true, syntax: true },
    ...options,
    plugins: [...(options.plugins ?? []), plugin],
    naming: {
      entry: "[name].[ext]",
      chunk: "chunk-[hash].[ext]",
      asset: "[name].[ext]",
      ...(options.naming as object),
    },
  });
  rmSync(stubs, { recursive: true, force: true });
  if (!made.success) throw new AggregateError(made.logs);
  for (const [name, path] of beside) cpSync(path, `${to}/${name}`, { recursive: true });
  beside.clear();
}

/** A file's own place, without a module of Node's: browsers have none. */
const HERE = 'const HERE = new URL("file:///" + encodeURI(__filename.replace(/\\\\/g, "/").replace(/^\\//, ""))).href;';

type Faces = Readonly<Record<string, string>>;

/** Each entry as an ES module; they share what is common to them. */
export const esModules = (entries: Faces, to: string, more: Partial<Bundle> = {}) =>
  bundle({ entries, to, target: "node", format: "esm", splitting: true, ...more });

export const commonJs = (entries: Faces, to: string, more: Partial<Bundle> = {}) =>
  bundle({
    ...{ entries, to, target: "node", format: "cjs", naming: { entry: "[name].cjs" }, banner: HERE },
    define: { "import.meta.url": "HERE" },
    ...more,
  });
