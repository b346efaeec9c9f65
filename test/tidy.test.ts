/** Checks that the repository keeps its house rules, and that each rule notices a violation. */
import { expect, test } from "bun:test";
import {
  bagMembers,
  circlesOf,
  configMembers,
  exportedTwice,
  filesUnder,
  folderOf,
  foldersIn,
  read,
  readmeWrong,
  roomOf,
  roomsIn,
  rules,
  SET_UP,
  type SourceFile,
  schedules,
} from "./tidy-rules.ts";

const files = filesUnder("");

test.each(rules.map((rule) => [rule.name, rule] as const))("%s", (_, { applies, wrong }) => {
  const checked = files.filter(applies);
  expect(checked.length).toBeGreaterThan(0);
  const found = checked.flatMap((path) => {
    const fault = wrong({ path, text: read(path) });
    return fault ? [`${path}: ${fault}`] : [];
  });
  expect(found).toEqual([]);
});

test("each folder of tests mirrors a folder of src, or ARCHITECTURE.md describes it", () => {
  const folders = new Set(files.flatMap((path) => /^(test\/.+)\/[^/]+\.test\.ts$/.exec(path)?.slice(1) ?? []));
  const table = read("ARCHITECTURE.md").split("\n## Tests\n")[1];
  const sources = new Set(
    files.map((path) => path.replace(/^src\//, "")).map((path) => path.slice(0, path.lastIndexOf("/"))),
  );
  const isMirror = (folder: string) => sources.has(folder.replace(/^test\//, ""));
  const isKind = (folder: string) => table?.includes(`| \`${folder.split("/").slice(0, 2).join("/")}/\``);
  const [kinds, mirrors] = [[...folders].filter(isKind), [...folders].filter(isMirror)];
  expect(kinds.length).toBeGreaterThan(8);
  expect(mirrors.length).toBeGreaterThan(30);
  expect([...folders].filter((folder) => !isKind(folder) && !isMirror(folder))).toEqual([]);
});

/** The accepted circle: a block refers to its cached content, and content is found by block. */
const CIRCLES = [["assembly/blocks.ts", "assembly/prefix.ts"]];

test("there is no circle of value imports, except one in the core", () => {
  const sources = files.filter((path) => /^(src|assembly)\/.*\.ts$/.test(path));
  expect(circlesOf(sources.map((path) => ({ path, text: read(path) })))).toEqual(CIRCLES);
});

test("circles are found through any number of files, but not through types or later imports", () => {
  const of = (texts: Readonly<Record<string, string>>) =>
    circlesOf(Object.entries(texts).map(([path, text]) => ({ path, text })));
  const [toA, toB, toC] = ["a", "b", "c"].map((name) => `import { x } from "./${name}.ts";`);
  expect(of({ "src/a.ts": toB!, "src/b.ts": toC!, "src/c.ts": `export * from "./a.ts";` })).toEqual([
    ["src/a.ts", "src/b.ts", "src/c.ts"],
  ]);
  expect(of({ "src/a.ts": `import { type T, x } from "./b.ts";`, "src/b.ts": `import "./a.ts";` })).toHaveLength(1);
  expect(of({ "assembly/a.ts": 'import { x } from "./b";', "assembly/b.ts": 'import { y } from "./a";' })).toHaveLength(
    1,
  );
  expect(of({ "src/a.ts": toA! })).toEqual([["src/a.ts"]]);
  for (const type of [
    'import type { T } from "./b.ts";',
    'import { type T, type U } from "./b.ts";',
    'import type T from "./b.ts";',
    'export type { T } from "./b.ts";',
    'const b = await import("./b.ts");',
    '// import { x } from "./b.ts";',
    toC!,
  ]) {
    expect(of({ "src/a.ts": type, "src/b.ts": toA!, "src/c.ts": "" })).toEqual([]);
  }
});

/** Names that several files may export, with the reason. The number must fall and never exceed 15. */
const TWICE: Readonly<Record<string, string>> = {
  createEngine: "one per entry of the package: browsers have no files to read the core from",
  createServer: "one per entry of the package: Bun serves in its own process, Node starts one",
  startFront: "as createServer",
  withServer: "as createServer",
  Engine: "the package's name for the engine, and the engine that it wraps",
  Server: "a server that the package has started, and the interface of a server over the kernel",
};

test("each exported name is unique", () => {
  const sources = files.filter((path) => /^src\/.*\.ts$/.test(path)).map((path) => ({ path, text: read(path) }));
  expect(Object.keys(exportedTwice(sources)).sort()).toEqual(Object.keys(TWICE).sort());
  expect(Object.keys(TWICE).length).toBeLessThanOrEqual(15);
});

test("every kind of declaration counts as an exported name, but imports and local names do not", () => {
  const of = (...texts: string[]) => exportedTwice(texts.map((text, index) => ({ path: `src/${index}.ts`, text })));
  for (const declaration of [
    "export class Sample {}",
    "export abstract class Sample {}",
    "export interface Sample {}",
    "export type Sample = 1;",
    "export const Sample = 1;",
    "export enum Sample { A }",
    "export function Sample() {}",
    "export async function Sample() {}",
    "export function* Sample() {}",
  ]) {
    expect(of("export type Sample = 2;", declaration), declaration).toEqual({ Sample: ["src/0.ts", "src/1.ts"] });
  }
  expect(of("export const one = 1;", "const one = 1;", 'import { one } from "./0.ts";', "// export const one")).toEqual(
    {},
  );
  expect(of("export function read(a: 1): 1;\nexport function read(a: 2): 2;")).toEqual({});
});

test("no regular expression of src has flag v, whose sets Bun 1.4.5 compiles in 10 to 20 ms", () => {
  const flagged = /\/[dgimsuy]*v[dgimsuy]*(?=[;,).\s])/;
  const found = (text: string) => text.split("\n").some((line) => /[=(,:] \/.*[\]\\]/.test(line) && flagged.test(line));
  expect(found("const ESCAPED = /[\\p{C}--[ ]]/gv;")).toBe(true);
  expect(found("const ESCAPED = /[\\p{C}]/gu;")).toBe(false);
  expect(files.filter((path) => /^src\/.*\.ts$/.test(path) && found(read(path)))).toEqual([]);
});

test("one file calls the core's schedule", () => {
  const callers = files.filter((path) => path.startsWith("src/") && path.endsWith(".ts") && schedules(read(path)));
  expect(callers).toHaveLength(1);
});

test("the README has both commands, and CI runs the second one", () => {
  expect(readmeWrong(read("README.md"))).toBeUndefined();
  expect(read(".ci/run")).toContain(`\n${SET_UP} test\n`);
});

/** Violations that each rule must notice: start of the rule's name, path, text. */
const bad: readonly (readonly [rule: string, path: string, text: string])[] = [
  ["imports go down only", "src/engine/loop.ts", 'import { asResponses } from "../wire/http/as-response.ts";'],
  ["imports go down only", "src/metrics/route.ts", 'import type { X } from "../servers/vllm/openai/fields.ts";'],
  ["imports go down only", "src/metrics/vllm/vllm.ts", 'import { CoreReader } from "../../engine/wasm/reader.ts";'],
  ["imports go down only", "src/text/plan.ts", 'import { Word } from "../../assembly/layout.ts";'],
  ["imports go down only", "src/servers/vllm/messages/dialect.ts", 'import { x } from "../responses/fields.ts";'],
  [
    "imports go down only",
    "src/tools/load/clients/client.ts",
    'const { x } = await import("../../../wire/http/sink.ts");',
  ],
  ["imports go down only", "src/config/schema.ts", 'import { Engine } from "../engine/engine.ts";'],
  ["imports go down only", "src/kernel/marks.ts", 'export { run } from "../cli/serve/serve.ts";'],
  ["imports go down only", "src/tools/check/laws.ts", 'import "../../engine/wasm/core.ts";'],
  ["imports go down only", "src/wire/http/front-limits.ts", 'import { SLOTS } from "../../assembly/layout.ts";'],
  ["imports go down only", "src/base/core-limits.ts", 'import { column } from "../../assembly/column.ts";'],
  ["imports go down only", "assembly/vllm/end.ts", 'import { pool } from "../trtllm/pool";'],
  ["imports go down only", "src/faults/rows/row.ts", 'import { textStage } from "../stages/text.ts";'],
  ["imports go down only", "src/faults/stages/text.ts", 'import { run } from "../pipeline.ts";'],
  ["imports go down only", "src/wire/http/sink.ts", 'import { Core } from "../../engine/wasm/core.ts";'],
  ["only wire/http/elysia.ts", "src/metrics/route.ts", 'import { Elysia } from "elysia";'],
  ["engine/ runs", "src/engine/wasm/core.ts", 'const bytes = await Bun.file("core.wasm").bytes();'],
  ["engine/ runs", "src/engine/engine.ts", 'import { readFileSync } from "node:fs";'],
  ["no clock and no chance", "src/engine/loop.ts", "const t = performance.now();"],
  ["no clock and no chance", "src/wire/http/sink.ts", "setTimeout(drain, 1); // later"],
  ["no clock and no chance", "src/cli/serve/serve.ts", "const id = crypto.randomUUID();"],
  ["the core's schedule", "src/kernel/marks.ts", "core.schedule(now);"],
  ["a file has at most 400 lines", "src/kernel/marks.ts", "x\n".repeat(401)],
  ["names are kebab-case", "src/engine/theLoop.ts", ""],
  ["names are kebab-case", "test/unit/Big_file.test.ts", ""],
  ["a TODO names its issue", "src/kernel/marks.ts", "// TODO later"],
  ["no path of a developer's machine", "README.md", "see /work/shared/x"],
  ["no path of a developer's machine", "src/kernel/marks.ts", 'open("/tmp/x")'],
  ["no path of a developer's machine", "bench/results/stream.jsonl", '{"path":"/work/main/build/paced.template"}'],
  ["no host of a package registry", "bun.lock", '"https://registry.npmjs.org/yaml/-/yaml-2.9.1.tgz"'],
  ["clocks, wall time", "src/servers/openai/front/http.ts", 'import { randomHex } from "../../../base/random.ts";'],
  [
    "clocks, wall time",
    "src/servers/vllm/messages/form.ts",
    'import { type Ids, idsOf } from "../../../base/random.ts";',
  ],
  ["clocks, wall time", "src/metrics/fakes.ts", 'import {\n  mix,\n  epochSeconds,\n} from "../base/clock.ts";'],
  ["clocks, wall time", "src/engine/loop.ts", 'import { type Clock, WallClock as Mine } from "../base/clock.ts";'],
  ["clocks, wall time", "src/servers/openai/pipeline/host.ts", 'import * as clock from "../../../base/clock.ts";'],
  [
    "clocks, wall time",
    "src/servers/openai/overrides/orders.ts",
    'export { randomSeed } from "../../../base/random.ts";',
  ],
  ["clocks, wall time", "src/truth/log.ts", 'const { wallUs } = await import("../base/clock.ts");'],
];

/** Files that no rule may report. */
const good: readonly SourceFile[] = [
  { path: "src/engine/loop.ts", text: '/** Runs. */\nimport type { C } from "./wasm/core.ts";\ncore.schedule(now);' },
  {
    path: "src/servers/vllm/openai/routes.ts",
    text: '// Runs.\nimport { s } from "../../../wire/http/sink.ts";\nimport { mix } from "../../../base/random.ts";',
  },
  {
    path: "src/engine/wasm/reader.ts",
    text: '/* Runs. */\nimport { Word } from "../../../assembly/layout.ts"; // not Bun.file, not performance.now\n',
  },
  {
    path: "src/engine/holding.ts",
    text: '/** Runs. */\nimport type { Clock } from "../base/clock.ts";\nimport { mix, type Random, seeded } from "../base/random.ts";',
  },
  { path: "src/cli/check/check.ts", text: '/** Runs. */\nimport { WallClock } from "../../base/clock.ts";' },
  { path: "src/base/clock.ts", text: "/** Reads the time. */\nexport const now = () => performance.now();" },
  {
    path: "src/kernel/marks.ts",
    text: '/** Runs. */\nimport { e } from "../engine/engine.ts"; // TODO #12: names\nconst url = "http://localhost//x";',
  },
  { path: "src/cli/load/load.ts", text: '/** Runs. */\nimport { c } from "../../tools/load/clients/client.ts";' },
  { path: "bench/stream/anchor.c", text: "/* Runs. */" },
];

test.each(bad)("%s: a violation in %s is noticed", (name, path, text) => {
  const rule = rules.find((candidate) => candidate.name.startsWith(name))!;
  expect(rule.applies(path)).toBe(true);
  expect(rule.wrong({ path, text })).toBeTruthy();
});

test("every rule has a bad example, and good files pass all", () => {
  for (const { name } of rules)
    expect(
      bad.some(([rule]) => name.startsWith(rule)),
      name,
    ).toBe(true);
  for (const file of good) {
    for (const { name, applies, wrong } of rules) {
      expect(applies(file.path) && wrong(file), `${name}: ${file.path}`).toBeFalsy();
    }
  }
});

test("the check of the README notices wrong commands", () => {
  const block = `\`\`\`sh\n${SET_UP} start   # serve\n${SET_UP} test\n\`\`\`\n`;
  expect(readmeWrong(block)).toBeUndefined();
  expect(readmeWrong(block.replace(" test", " tests"))).toContain("commands are");
  expect(readmeWrong(`${block}\nnpx -y bun@1.4.5 x\n`)).toContain("commands are");
  expect(readmeWrong("text\n".repeat(50) + block)).toContain("first screen");
});

test("rooms and folders are derived from paths", () => {
  const paths = [
    "src/main.ts",
    "src/base/clock.ts",
    "src/globals.d.ts",
    "src/servers/openai/front/a.ts",
    "src/metrics/bugs/a/b.ts",
    "assembly/layout.ts",
  ];
  expect(paths.map(roomOf)).toEqual(["main", "base", "globals", "servers/openai", "metrics", "assembly"]);
  expect(paths.map(folderOf)).toEqual([".", ".", ".", "front", "bugs", "."]);
});

const source = files.filter((path) => /^src\/.*\.ts$/.test(path));

test("ARCHITECTURE.md has every room once in its order, with a description", () => {
  const architecture = read("ARCHITECTURE.md");
  const order = roomsIn(architecture).flat();
  const divisible = files.filter((path) => /^(src|assembly)\/.*\.ts$/.test(path));
  const foldersOf = (room: string) => new Set(divisible.filter((path) => roomOf(path) === room).map(folderOf));
  const divided = order.filter((room) => foldersOf(room).size > 1);
  expect([...foldersIn(architecture).keys()].toSorted()).toEqual(divided.toSorted());
  for (const [room, heights] of foldersIn(architecture))
    expect(heights.flat().toSorted(), room).toEqual([...foldersOf(room)].toSorted());
  const rooms = new Set(source.map(roomOf).filter((room) => room !== "globals"));
  expect(order.toSorted()).toEqual([...rooms, "assembly"].toSorted());
  const unsaid = order.filter(
    (room) => room !== "main" && !new RegExp(`^\\| \`(src/)?${room}/`, "m").test(architecture),
  );
  expect(unsaid).toEqual([]);
});

/**
 * Returns the folder for which lines are counted: one level inside a wing, and under `src/servers` one level inside a server.
 */
function measuredFolder(path: string): string {
  const folders = path.split("/").slice(1, -1);
  return folders.slice(0, folders[0] === "servers" ? 3 : 2).join("/");
}

/** Returns the folders with more than a tenth of all lines. `of` counts the lines of a file. */
function crowded(of: (path: string) => number): string[] {
  const all = source.reduce((sum, path) => sum + of(path), 0);
  const lines = Map.groupBy(source, measuredFolder);
  return [...lines].flatMap(([room, paths]) => {
    const share = paths.reduce((sum, path) => sum + of(path), 0) / all;
    return share > 0.1 ? [`${room}: ${(100 * share).toFixed(1)} %`] : [];
  });
}

test("no type of a configuration has more than 20 members", () => {
  const inherits =
    "export interface AConfig extends BConfig {\n  readonly a: 1;\n}\nexport interface BConfig {\n  readonly b?: 2;\n}\n";
  const anew = "export interface CConfig extends AConfig {\n  readonly b: 2;\n}\n";
  expect([...configMembers([{ path: "", text: inherits + anew }])]).toEqual([
    ["AConfig", 2],
    ["BConfig", 1],
    ["CConfig", 2],
  ]);
  const members = configMembers(source.map((path) => ({ path, text: read(path) })));
  expect(members.size).toBeGreaterThan(20);
  expect([...members].filter(([, count]) => count > 20)).toEqual([]);
});

test("a server receives at most 12 members, and passes on at most 12", () => {
  const wide = "export interface Kernel<C extends D = D> {\n  readonly a: { b: 1 };\n  c(\n    d: 1,\n  ): void;\n}\n";
  const passed = "export interface Serving extends RouteDeps {\n  readonly a: 1;\n}\n";
  const deps =
    "export interface RouteDeps {\n  readonly b: 1;\n}\nexport interface KernelConfig {\n  readonly c: 1;\n}\n";
  expect([...bagMembers([{ path: "", text: wide + passed + deps }])]).toEqual([
    ["Kernel", 2],
    ["Serving", 2],
    ["RouteDeps", 1],
  ]);
  const members = bagMembers(source.map((path) => ({ path, text: read(path) })));
  expect(members.get("Kernel")).toBeGreaterThan(8);
  expect(members.size).toBe(14);
  expect([...members].filter(([, count]) => count > 12)).toEqual([]);
});

test("no folder inside a wing has more than a tenth of the lines, and no folder has more than 30 files", () => {
  const linesOf = (path: string) => read(path).split("\n").length - 1;
  expect(crowded(linesOf)).toEqual([]);
  expect(crowded((path) => (roomOf(path) === "tools/load" ? 2 : 1) * linesOf(path))).not.toEqual([]);
  const folders = Map.groupBy(source, (path) => path.slice(0, path.lastIndexOf("/")));
  expect([...folders].filter(([, paths]) => paths.length > 30).map(([folder]) => folder)).toEqual([]);
});
