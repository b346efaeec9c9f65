/**
 * The house rules that a program can check. Each rule takes one file and describes its fault; `tidy.test.ts` applies the
 * rules.
 */

import { readdirSync, readFileSync } from "node:fs";

export interface SourceFile {
  /** Path from the repository's root. */
  readonly path: string;
  readonly text: string;
}

export interface Rule {
  readonly name: string;
  readonly applies: (path: string) => boolean;
  /** Describes the fault. "" or undefined if there is none. */
  readonly wrong: (file: SourceFile) => string | undefined;
}

/**
 * Returns the order of rooms in ARCHITECTURE.md, from the highest line to the lowest. Every room may import the last line.
 */
export function roomsIn(architecture: string): string[][] {
  const block = /```rooms\n([\s\S]*?)```/.exec(architecture)?.[1] ?? "";
  return block
    .trim()
    .split("\n")
    .map((line) => line.split(" "));
}

/**
 * Returns the order of folders inside rooms, from the block `folders` of ARCHITECTURE.md: per line a room, then its folders from
 * the highest to the lowest. "." are the files directly in the room. Folders that are separated by a blank have equal height.
 */
export function foldersIn(architecture: string): Map<string, string[][]> {
  const block = /```folders\n([\s\S]*?)```/.exec(architecture)?.[1]?.trim() ?? "";
  const lines = block.split("\n").filter(Boolean);
  return new Map(
    lines.map((line) => {
      const [room = "", order = ""] = line.split(": ");
      return [room, order.split(" > ").map((folders) => folders.split(" "))];
    }),
  );
}

const ROOT = new URL("../", import.meta.url).pathname;
/** Folders that are not ours or are generated. */
const OUTSIDE = ["node_modules", "build", "dist", "coverage", ".git"];

/** Reads a file. The path starts at the repository's root. */
export const read = (path: string) => readFileSync(ROOT + path, "utf8");

/** Returns the files under a folder of the repository, as paths from its root. "" is the root, other folders end with a slash. */
export function filesUnder(folder: string): string[] {
  return readdirSync(ROOT + folder, { withFileTypes: true }).flatMap((entry) => {
    const path = folder + entry.name;
    const outside = OUTSIDE.includes(entry.name) || entry.name.startsWith(".venv");
    if (entry.isDirectory()) return outside ? [] : filesUnder(`${path}/`);
    return entry.isFile() ? [path] : [];
  });
}

const ARCHITECTURE = read("ARCHITECTURE.md");
/** Files that may read clocks and draw random numbers. */
const TIME_AND_CHANCE = ["clock", "time/clock-worker", "random"].map((name) => `src/base/${name}.ts`);
/** The room with the only file that calls the core's schedule. */
const SCHEDULES = "engine";
/** Rooms that may use the engine's WebAssembly code, besides the engine. */
const KNOW_WASM = ["engine", "kernel", "cli"];
/** The room that may import the files for both compilers, and the file that gives the core's limits to others. */
const KNOWS_LAYOUT = "engine";
const CORE_LIMITS = { file: "src/base/core-limits.ts", reads: "assembly/layout.ts" };
/** Tools that must work against any server, with all rooms that they import. */
const ALONE: Readonly<Record<string, readonly string[]>> = {
  "tools/check": ["base"],
  "tools/load": ["base", "workloads", "tools/report"],
};

/** Folders of `src` whose subfolders are separate rooms. */
const HOUSES = ["servers", "tools"];

/** Returns the wing of a file: a folder of `src`, or of `src/servers` or `src/tools`. For a file directly in `src`, its name. */
export function roomOf(path: string): string {
  const [top = "", second = "", third = ""] = path.split("/");
  if (top !== "src") return top;
  return HOUSES.includes(second) ? `${second}/${third}` : second.replace(/(\.d)?\.ts$/, "");
}

/** Returns the folder of a file inside its room. "." for a file directly in the room. */
export function folderOf(path: string): string {
  const parts = path.split("/");
  const depth = roomOf(path).split("/").length + (parts[0] === "src" ? 1 : 0);
  return parts.length > depth + 1 ? parts[depth]! : ".";
}

/** The height of each room or folder above the lowest line of an order. */
type Heights = ReadonlyMap<string, number>;

const heightsOf = (order: readonly (readonly string[])[]): Heights =>
  new Map(order.toReversed().flatMap((places, height) => places.map((place) => [place, height] as const)));

/**
 * Returns the imports that do not point down: between rooms by the order of rooms, inside a room by the order of its folders.
 * A room or a folder that has no place in its order counts as wrong.
 */
export function upwardImports(files: readonly SourceFile[], architecture: string): string[] {
  const rooms = heightsOf(roomsIn(architecture));
  const folders = new Map([...foldersIn(architecture)].map(([room, order]) => [room, heightsOf(order)] as const));
  const pointsDown = (heights: Heights | undefined, from: string, to: string) =>
    from === to || (heights?.get(from) ?? Number.NaN) > (heights?.get(to) ?? Number.NaN);
  return files.flatMap((file) =>
    importsOf(file).flatMap((to) => {
      const [room, theirs] = [roomOf(file.path), roomOf(to)];
      if (!/^(src|assembly)\//.test(to) || theirs === "globals") return [];
      const isRight =
        room === theirs
          ? pointsDown(folders.get(room), folderOf(file.path), folderOf(to))
          : pointsDown(rooms, room, theirs);
      return isRight ? [] : [`${file.path} -> ${to}`];
    }),
  );
}

/** Returns the imported files inside the repository, as paths from its root. */
export function importsOf({ path, text }: SourceFile): string[] {
  const specifiers = code(text).matchAll(/(?:\bfrom|\bimport|\brequire\()\s*\(?\s*["'](\.[^"']*)["']/g);
  return [...specifiers].map(([, specifier]) => new URL(specifier!, `file:///${path}`).pathname.slice(1));
}

/**
 * Returns the imports of values: not `import type`, nor a list in which every name is a type, nor `import()`, which runs
 * later.
 */
export function valueImportsOf({ path, text }: SourceFile): string[] {
  const statements = code(text).matchAll(/\b(?:import|export)\s+(?:([^;"']*?)\bfrom\s*)?["'](\.[^"']*)["']/g);
  return [...statements].flatMap(([, names = "", specifier]) => {
    const list = /^\{(.*)\}\s*$/s.exec(names)?.[1]?.split(",") ?? [names];
    const isType = names !== "" && list.every((name) => name.trim() === "" || /^type\s/.test(name.trim()));
    if (isType) return [];
    const to = new URL(specifier!, `file:///${path}`).pathname.slice(1);
    return [to.endsWith(".ts") ? to : `${to}.ts`];
  });
}

/** Returns the groups of files that reach each other through value imports (Tarjan's algorithm), sorted. */
export function circlesOf(files: readonly SourceFile[]): string[][] {
  const imports = new Map(files.map((file) => [file.path, valueImportsOf(file)]));
  const places = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  /** Returns the smallest place number that is reachable and not yet in a group. */
  const reach = (path: string): number => {
    const place = places.size;
    places.set(path, place);
    open.push(path);
    let first = place;
    for (const to of imports.get(path)!) {
      if (!imports.has(to)) continue;
      if (!places.has(to)) first = Math.min(first, reach(to));
      else if (open.includes(to)) first = Math.min(first, places.get(to)!);
    }
    if (first < place) return first;
    const group = open.splice(open.indexOf(path));
    if (group.length > 1 || imports.get(path)!.includes(path)) circles.push(group.sort());
    return Number.POSITIVE_INFINITY;
  };
  for (const { path } of files) if (!places.has(path)) reach(path);
  return circles;
}

/**
 * Returns the names that several files declare and export, with their files. Types count like values, because a reader
 * searches for both.
 */
export function exportedTwice(files: readonly SourceFile[]): Readonly<Record<string, readonly string[]>> {
  const places = new Map<string, string[]>();
  const declaration =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function\*?|(?:const )?enum|const|let|interface|type)\s+([A-Za-z_$][\w$]*)/gm;
  for (const { path, text } of files) {
    const names = new Set([...text.matchAll(declaration)].map(([, name]) => name!));
    for (const name of names) places.set(name, [...(places.get(name) ?? []), path]);
  }
  return Object.fromEntries([...places].filter(([, paths]) => paths.length > 1));
}

/** `ModelConfig` in this folder has the fields of Triton's `config.pbtxt`. */
const CONFIG_OF_TRITON = "src/servers/triton/model-config/";

/**
 * Returns the number of members of each interface whose name matches. Members that it inherits from such interfaces count, and
 * methods, too. A member that it declares anew counts once. `CONFIG_OF_TRITON` is left out.
 */
function membersOf(files: readonly SourceFile[], names: RegExp): ReadonlyMap<string, number> {
  const declaration = /^export interface (\w+)(?:<[^\n]*>)?(?: extends ([\w, ]+))? \{\n([\s\S]*?)^\}/gm;
  const ours = files.filter(({ path }) => !path.startsWith(CONFIG_OF_TRITON));
  const declared = ours
    .flatMap(({ text }) => [...code(text).matchAll(declaration)])
    .filter(([, name = ""]) => names.test(name));
  const declarations = new Map(declared.map(([, name = "", parents = "", body = ""]) => [name, { parents, body }]));
  const of = (name: string): readonly string[] => {
    const { parents, body } = declarations.get(name) ?? { parents: "", body: "" };
    const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??(?::|\()/gm)].map(([, member = ""]) => member);
    return [...new Set([...parents.split(", ").flatMap((parent) => (parent === "" ? [] : of(parent))), ...members])];
  };
  return new Map([...declarations.keys()].map((name) => [name, of(name).length]));
}

/** Returns the number of members of each type of a configuration. */
export const configMembers = (files: readonly SourceFile[]) => membersOf(files, /Config$/);

/** Types that carry parts of a server to its routes: the kernel with its groups, and types that requests pass along. */
const BAGS = /^(Kernel(?!Config$|Options$)\w*|RouteDeps|Serving|ServerTraits|ServerAround|LlmDeps)$/;

/** Returns the number of members of the kernel, of each of its groups, and of the types that carry parts of a server onwards. */
export const bagMembers = (files: readonly SourceFile[]) => membersOf(files, BAGS);

function wrongImport(from: string, to: string): string | undefined {
  const [mine, theirs] = [roomOf(from), roomOf(to)];
  if (
    theirs === "assembly" &&
    ![theirs, KNOWS_LAYOUT].includes(mine) &&
    !(from === CORE_LIMITS.file && to === CORE_LIMITS.reads)
  )
    return `${to}: only for ${KNOWS_LAYOUT} and ${CORE_LIMITS.file}`;
  if (theirs === "engine" && folderOf(to) === "wasm" && !KNOW_WASM.includes(mine))
    return `${to}: only for ${KNOW_WASM.join(", ")}`;
  const allowed = ALONE[mine];
  if (allowed && /^(src|assembly)\//.test(to) && ![mine, ...allowed].includes(theirs))
    return `${to}: ${mine} works against any server and imports only ${allowed.join(", ")}`;
  return undefined;
}

/** Removes comments. A `//` inside a string stays, because no blank precedes it. */
export function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");
}

/**
 * Rooms that create clocks and ids for others: those that assemble a server, commands, clients, and the room that defines
 * both.
 */
const MAKE_CLOCKS_AND_IDS = ["kernel", "app", "cli", "embed", "tools/load", "tools/check", "base"];
/**
 * Files that create their clock or ids: threads, into which no clock can be passed, and the serial number of a certificate.
 */
const MAKE_THEIR_OWN = [
  "src/kv-events/worker.ts",
  "src/text/canned/fixtures/fixtures-worker.ts",
  "src/wire/tls/self-signed.ts",
];
/** Values of clock.ts and random.ts that every file may import, because they read no clock and draw nothing. */
const PURE = ["mix", "seeded"];

/** Returns the first import of clock.ts or random.ts that should be a parameter instead. */
export function notHandedIn(text: string): string | undefined {
  const from = /\b(?:import|export)\s+([^;"']*?)\s*\bfrom\s*["'][^"']*\/(?:clock|random)\.ts["']/g;
  const imported = [...code(text).matchAll(from)].flatMap(([, names = ""]) =>
    names.startsWith("type ") ? [] : names.replace(/[{}]/g, "").split(","),
  );
  const values = imported
    .map((name) => name.trim().split(/\s+as\s+/)[0]!)
    .filter((name) => name !== "" && !/^type\s/.test(name));
  return (
    values.find((name) => !PURE.includes(name)) ?? search(/\bimport\(\s*["'][^"']*\/(clock|random)\.ts["']/, code(text))
  );
}

/** Reports whether the file calls the core's schedule. A second caller would be a second scheduler. */
export function schedules(text: string): boolean {
  return /\.(schedule|exports\.coast)\(/.test(code(text));
}

const inRoom = (rooms: readonly string[]) => (path: string) => path.startsWith("src/") && rooms.includes(roomOf(path));
/** Reports whether a file is code of ours. */
export const isSource = (path: string) => /^(src|assembly|test|bench|scripts)\/.*\.(ts|c|h)$/.test(path);
const RULES_THEMSELVES = /^test\/tidy(-rules|-words)?(\.test)?\.ts$/;
const isText = (path: string) =>
  /\.(ts|c|h|json|jsonl|jsonc|md|toml|yaml|yml|html|py|sh|lock)$|^\.ci\/run$|^bin\//.test(path);

function search(pattern: RegExp, text: string): string | undefined {
  const match = pattern.exec(text);
  return match ? `line ${text.slice(0, match.index).split("\n").length}: ${match[0].trim()}` : undefined;
}

export const rules: readonly Rule[] = [
  {
    name: "imports go down only",
    applies: (path) => /^(src|assembly)\//.test(path),
    wrong: (file) =>
      [
        ...importsOf(file).map((to) => wrongImport(file.path, to)),
        ...upwardImports([file], ARCHITECTURE).map((arrow) => `${arrow}: imports go down only`),
      ]
        .filter(Boolean)
        .join("; "),
  },
  {
    name: "engine/ runs in Node and in a browser: no Bun, no Node",
    applies: inRoom(["engine"]),
    wrong: ({ text }) =>
      search(/\bBun\.|["']bun(:[a-z]+)?["']|["']node:[a-z/_]+["']|\bprocess\.|import\.meta\.(dir|require)/, code(text)),
  },
  {
    name: "no clock and no chance outside clock.ts and random.ts",
    applies: (path) => path.startsWith("src/") && !TIME_AND_CHANCE.includes(path),
    wrong: ({ text }) =>
      search(
        /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bMath\.random\b|\b(setTimeout|setInterval|setImmediate)\b|\bBun\.(sleep|nanoseconds)\b|\brandomUUID\b|\brandomBytes\b|\bgetRandomValues\b|\bhrtime\b|\bAbortSignal\.timeout\b/,
        code(text),
      ),
  },
  {
    name: "clocks, wall time and ids are handed in",
    applies: (path) =>
      /^src\/.*\.ts$/.test(path) && !MAKE_CLOCKS_AND_IDS.includes(roomOf(path)) && !MAKE_THEIR_OWN.includes(path),
    wrong: ({ text }) => notHandedIn(text),
  },
  {
    name: "the core's schedule is called in engine/ alone",
    applies: (path) => path.startsWith("src/") && roomOf(path) !== SCHEDULES,
    wrong: ({ text }) => (schedules(text) ? "it calls schedule" : undefined),
  },
  {
    name: "only wire/http/elysia.ts knows Elysia",
    applies: (path) => /^(src|test)\//.test(path) && path !== "src/wire/http/elysia.ts" && !RULES_THEMSELVES.test(path),
    wrong: ({ text }) => search(/(\bfrom|\bimport\(|\bimport) *["']elysia["']/, text),
  },
  {
    name: "a file has at most 400 lines",
    applies: isSource,
    wrong: ({ text }) => {
      const lines = text.trimEnd().split("\n").length;
      return lines > 400 ? `${lines} lines` : undefined;
    },
  },
  {
    name: "names are kebab-case",
    applies: isSource,
    wrong: ({ path }) => path.split("/").find((part) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+)*$/.test(part)),
  },
  {
    name: "a TODO names its issue",
    applies: (path) => isSource(path) && !RULES_THEMSELVES.test(path),
    wrong: ({ text }) => search(/\b(TODO|FIXME|XXX)\b(?!.*#\d+).*/, text),
  },
  {
    name: "no path of a developer's machine",
    applies: (path) => isText(path) && !RULES_THEMSELVES.test(path),
    wrong: ({ text }) => search(/(?<![\w.])\/(work|tmp|root|home)\/\w[^\s"'`]*/, text),
  },
  {
    name: "no host of a package registry",
    applies: (path) => isText(path) && !RULES_THEMSELVES.test(path),
    wrong: ({ text }) =>
      search(
        /\b(registry\.(npmjs\.org|yarnpkg\.com)|files\.pythonhosted\.org|pypi\.org\/simple|npm\.pkg\.github\.com)\S*/,
        text,
      ),
  },
];

/** Start of the two commands on the README's first screen, for a machine with Node 20 and npm. */
export const SET_UP = "npx -y bun@1.4.5 install --frozen-lockfile && npx bun run";

export function readmeWrong(readme: string): string | undefined {
  const commands = readme.split("\n").filter((line) => /^\s*(npx|npm|bun|bunx|node) /.test(line));
  const wanted = [`${SET_UP} start`, `${SET_UP} test`];
  const found = commands.map((line) => line.replace(/\s+#.*/, "").trim()).filter((line) => line.startsWith("npx -y"));
  if (found.join("\n") !== wanted.join("\n")) return `its commands are ${found.join(" | ") || "missing"}`;
  const screen = readme.split("\n").slice(0, 40).join("\n");
  return wanted.every((command) => screen.includes(command)) ? undefined : "the commands are not on the first screen";
}
