/** Bundles programs. All libraries go into the bundle, and the files that the program loads by a path lie next to it. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import type { BunPlugin } from "bun";

const root = new URL("../", import.meta.url).pathname;

/** Files and folders, other than code, that sources load by a path. The keys are their names next to the bundle. */
const beside = new Map<string, string>();
const LOADED = /new URL\((["`])(\.[^"`]*)\1, import\.meta\.url\)/g;

/**
 * Yields the path from the root of each file or folder that sources load by a path. Leaves out built files and the package's
 * own programs.
 */
function* loadedByPath(): Generator<string> {
  for (const path of new Bun.Glob("src/**/*.ts").scanSync({ cwd: root })) {
    for (const [, , to] of readFileSync(root + path, "utf8").matchAll(LOADED))
      if (!/^(\.\.\/)+(server|build)\//.test(to!)) yield join(dirname(path), to!);
  }
}

/** Returns the name that a file or folder has next to a bundle if sources load it by a path. The name has no extension `.ts`. */
const flatName = (path: string) => `${basename(dirname(path))}-${basename(path, ".ts")}`;

/** Returns the paths of the threads and processes that the sources start, by the names of their files next to the bundle. */
const threads = (): Record<string, string> =>
  Object.fromEntries(
    [...loadedByPath()].filter((path) => path.endsWith(".ts")).map((path) => [flatName(path), path] as const),
  );

/**
 * Rewrites `new URL("./x.ts", import.meta.url)` for the bundle, where threads lie next to their chunk and built files in
 * `builtFolder`. The path of that folder is relative to the chunk.
 */
function renamed(path: string, text: string, builtFolder: string): string {
  const imports = /import (\w+) from "(?:\.\.\/)+build\/(.*)" with \{ type: "file" \};/g;
  const files = `const $1 = Bun.fileURLToPath(new URL("${builtFolder}$2", import.meta.url));`;
  const loaded = text.replace(LOADED, (whole, quote, to: string) => {
    if (to.startsWith("../server/")) return whole;
    const built = /^(?:\.\.\/)+build\/(.*)$/.exec(to);
    const target = join(dirname(path), to);
    const flat = flatName(target) + (to.endsWith(".ts") ? ".js" : "");
    if (!built && !to.endsWith(".ts")) beside.set(flat, target);
    const name = built ? `${builtFolder}${built[1]}` : `./${flat}`;
    return `new URL(${quote}${name}${quote}, import.meta.url)`;
  });
  return loaded.replace(imports, files);
}

/** Names of packages whose code is in a bundle. */
export const bundled = new Set<string>();

/** Entry of the bundle with the code of a server. */
const SERVE = "src/cli/serve/serve.ts";
/** Threads that a server starts before the first scrape, by the names of their files next to the bundle. */
const EARLY_THREADS = ["time-clock-worker", "tokens-encoder-worker", "metrics-worker"];

/** Libraries that no start needs, by the names of their files next to the bundle. Only bundles of ES modules keep these names. */
const LIBRARIES: Readonly<Record<string, string>> = {
  "library-elysia": "elysia",
  "library-re2js": "re2js",
  "library-regexpp": "@eslint-community/regexpp",
  "library-jinja": "@huggingface/jinja",
  "library-tokenizers": "@huggingface/tokenizers",
};

/** A plugin that leaves the libraries out of a bundle with bytecode, because such a bundle is read as a whole. */
const withoutLibraries: BunPlugin = {
  name: "without libraries",
  setup(build) {
    for (const [file, library] of Object.entries(LIBRARIES))
      build.onResolve({ filter: new RegExp(`^${library}$`) }, () => ({ path: `./${file}.js`, external: true }));
  },
};

/**
 * Returns the plugin of all bundles. `builtFolder`: as in `renamed`. `hasOwnServe`: true if the server has a bundle of its own,
 * apart from that of the main program.
 */
const packed = (builtFolder: string, hasOwnServe: boolean): BunPlugin => ({
  name: "packed",
  setup(build) {
    build.onResolve({ filter: /\/cli\/serve\/serve\.ts$/ }, ({ importer }) =>
      hasOwnServe && importer === `${root}src/main.ts` ? { path: "./serve.js", external: true } : undefined,
    );
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => ({
      contents: renamed(path, await Bun.file(path).text(), builtFolder),
      loader: "ts",
    }));
    build.onLoad({ filter: /\/node_modules\/.*\.[cm]?js$/ }, ({ path }) => {
      const name = /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
      if (name) bundled.add(name);
      return undefined;
    });
  },
});

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
 * Bundles the program that runs on Bun: the entries, and the files of its threads next to them. A server and its first threads
 * have a file each, with its bytecode. A start from source text takes 45 ms more, most of it in the parser. Bun runs the text
 * if the bytecode is absent, damaged, or made by another version. The format is CommonJS because Bun 1.4.5 has bytecode of ES
 * modules only in executables.
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

/** Settings of all bundles. */
const COMMON = { external: ["fast-check", "vitest"], minify: { whitespace: true, syntax: true } };

/** Writes a file for each entry that exports the entry, and returns the paths. A bundle's files have the names of these files. */
function stubsOf(entries: Readonly<Record<string, string>>, folder: string): string[] {
  mkdirSync(folder, { recursive: true });
  const up = relative(folder, root);
  return Object.entries(entries).map(([name, path]) => {
    const stub = `${folder}/${name}.ts`;
    writeFileSync(stub, `export * from "${path.includes(".ts") ? `${up}/` : ""}${path}";\n`);
    return stub;
  });
}

/** Bundles the entries. All files of a bundle lie in one folder, so that each finds by its path the files that it loads. */
async function bundle({ entries, to, ...options }: Bundle): Promise<void> {
  // The name depends on the output folder only, so that the same sources always make the same bundle, and two bundles can be
  // made at once.
  const stubs = `${root}build/entries-${to.slice(root.length).replaceAll("/", "-")}`;
  rmSync(stubs, { recursive: true, force: true });
  const made = await Bun.build({
    ...COMMON,
    entrypoints: stubsOf(entries, stubs),
    root: stubs,
    outdir: to,
    ...options,
    plugins: [...(options.plugins ?? []), packed("../build/", true)],
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

interface Executable {
  /** Name of the platform as Bun's bundler expects it. */
  readonly target: Bun.Build.CompileTarget;
  /** Path of Bun's program for that platform. */
  readonly runtime: string;
  readonly outfile: string;
}

/**
 * Makes a single file of Bun, the program with its threads, the built files and the files that sources load by a path. All
 * modules have their bytecode. The file reads no `.env` and no `bunfig.toml` of the folder in which it is started.
 *
 * Modules are split, because threads of Bun 1.4.5 end without an error if each entry has its own copy of shared modules.
 */
export async function executable(main: string, { target, runtime, outfile }: Executable): Promise<void> {
  const stage = `${root}build/single-file-${process.pid}`;
  try {
    const beside = [...loadedByPath()].filter((path) => !path.endsWith(".ts"));
    for (const path of beside) cpSync(root + path, `${stage}/${flatName(path)}`, { recursive: true });
    for (const name of BUILT) cpSync(`${root}build/${name}`, `${stage}/build/${name}`);
    const made = await Bun.build({
      ...COMMON,
      entrypoints: stubsOf({ main, ...threads() }, stage),
      root: stage,
      target: "bun",
      format: "esm",
      splitting: true,
      bytecode: true,
      naming: { entry: "[name].[ext]", chunk: "chunk-[hash].[ext]" },
      plugins: [packed("./build/", false)],
      compile: {
        target,
        executablePath: runtime,
        outfile,
        assets: ["build", ...beside.map(flatName)].map((name) => `${stage}/${name}`),
        autoloadDotenv: false,
        autoloadBunfig: false,
      },
    });
    if (!made.success) throw new AggregateError(made.logs);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Code for CommonJS that computes the URL of the file itself. It uses no module of Node, because browsers have none. */
const HERE = 'const HERE = new URL("file:///" + encodeURI(__filename.replace(/\\\\/g, "/").replace(/^\\//, ""))).href;';

type Faces = Readonly<Record<string, string>>;

/** Bundles each entry as an ES module. Code that several entries use goes into shared files. */
export const esModules = (entries: Faces, to: string, more: Partial<Bundle> = {}) =>
  bundle({ entries, to, target: "node", format: "esm", splitting: true, ...more });

export const commonJs = (entries: Faces, to: string, more: Partial<Bundle> = {}) =>
  bundle({
    ...{ entries, to, target: "node", format: "cjs", naming: { entry: "[name].cjs" }, banner: HERE },
    define: { "import.meta.url": "HERE" },
    ...more,
  });
