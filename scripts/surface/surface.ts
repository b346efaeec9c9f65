/**
 * Collects all names that semantic versioning covers (docs/reference/stability.md), each with a text of its meaning. The list of
 * the last release is in test/docs/surface.json. `npx bun run docs` writes it.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KEYS } from "../../src/cli/compat/llm-d-keys.ts";
import { COMMANDS, TRITON } from "../../src/cli/manual/commands.ts";
import { environmentName } from "../../src/cli/options/environment.ts";
import { aliases, ignoredOptions, shortFlags } from "../../src/cli/options/ignored-flags.ts";
import type { Option, OptionRow } from "../../src/cli/options/option.ts";
import { TRITON_IGNORED } from "../../src/cli/options/triton-ignored.ts";
import { tritonServerOptions } from "../../src/cli/options/triton-server-options.ts";
import { trtllmNames } from "../../src/cli/options/trtllm-names.ts";
import { METRICS_METHODS } from "../../src/metrics/route.ts";
import { understudy } from "../../src/metrics/vllm/understudy.ts";
import { ADMIN_METHODS } from "../../src/servers/openai/front/admin-routes.ts";
import { TRUTH_METHODS } from "../../src/truth/routes.ts";
import { currentExitCodes } from "../docs/exit-codes.ts";
import { publicRows } from "./declarations.ts";
import { yamlKeys } from "./yaml-keys.ts";

const root = new URL("../../", import.meta.url).pathname;

export const KINDS = [
  "commands",
  "flags",
  "YAML keys",
  "exit codes",
  "JSON keys",
  "routes",
  "metric families",
  "types",
] as const;
export type Kind = (typeof KINDS)[number];

/** The meaning of each name that semantic versioning covers, by kind and name. For a flag: its values and its default. */
export type Surface = Readonly<Record<Kind, Readonly<Record<string, string>>>>;

type OptionTable = Readonly<Record<string, Option & Partial<OptionRow>>>;

/** Options without effect, by command. */
const IGNORED: Readonly<Record<string, readonly string[]>> = {
  serve: Object.keys(ignoredOptions),
  "serve --role trtllm-serve": Object.keys(trtllmNames.ignored),
  "serve --role triton": TRITON_IGNORED,
};

/** Returns the flags of a command. `serve` reads each also from the environment and from its configuration file. */
export function flagsOf(command: string, table: OptionTable): [name: string, meaning: string][] {
  return Object.entries(table).map(([name, { arity, accepts, default: absent }]) => {
    const variable = command === "serve" ? ` (${environmentName(name)})` : "";
    const values = arity === "toggle" || arity === "switch" ? "" : `, ${accepts}`;
    return [`${command} --${name}`, `${arity}${values}; default: ${absent}${variable}`];
  });
}

function* allFlags(): Generator<[string, string]> {
  for (const { name, options } of COMMANDS) yield* flagsOf(name, name === TRITON ? tritonServerOptions : options);
  for (const [command, names] of Object.entries(IGNORED))
    for (const name of names) yield [`${command} --${name}`, "without effect"];
  for (const [alias, name] of Object.entries(aliases)) yield [`serve --${alias}`, `stands for --${name}`];
  for (const [short, name] of Object.entries(shortFlags)) yield [`serve ${short}`, `stands for --${name}`];
  for (const [alias, name] of Object.entries(trtllmNames.aliases))
    yield [`serve --role trtllm-serve --${alias}`, `stands for --${name}`];
  for (const [name, { takes, fate }] of Object.entries(KEYS))
    yield [`serve --compat llm-d-inference-sim --${name}`, `${takes}, ${Object.keys(fate)[0]}`];
}

/** Returns the commands that `understudy help` lists. */
function commands(): [string, string][] {
  const help = /const USAGE = `([^`]*)`/.exec(readFileSync(`${root}src/main.ts`, "utf8"))![1]!;
  return [...help.matchAll(/^ {2}understudy (\w+) ?(.*?) {2,}\S/gm)].map(([, name, takes]) => [
    takes === "list" || takes!.includes("PLAN") ? `${name} ${takes!.split(" ")[0]}` : name!,
    takes!,
  ]);
}

function exitCodes(read?: (path: string) => string): [string, string][] {
  const codes = Map.groupBy(currentExitCodes(read), ({ command, code }) => `${command}: ${code}`);
  return [...codes].map(([name, rows]) => [name, rows.map(({ meaning }) => meaning).join("; ")]);
}

function routes(): [string, string][] {
  const pages = Object.keys(METRICS_METHODS).filter((path) => /^\/metrics\/./.test(path));
  const methods = { ...Object.fromEntries(pages.map((path) => [path, ["GET"]])), ...TRUTH_METHODS, ...ADMIN_METHODS };
  return Object.entries(methods).map(([path, names]) => [path, names.join(", ")]);
}

/** Returns the rows of the public types. `read`: returns the text of a declaration file. */
export function typesOf(read: (path: string) => string): Map<string, string> {
  const entries = ["index", "testing", "vitest", "browser"].map((name) => `src/embed/${name}.d.ts`);
  return publicRows(entries, read);
}

/** Returns the types of the lines of a truth log, from the file that declares them. */
function truthLines(): [string, string][] {
  const path = "src/truth/schema.ts";
  const rows = publicRows([path], (file) => (file === path ? readFileSync(root + file, "utf8") : ""));
  return [...rows].flatMap(([name, meaning]) => {
    const [type, key] = name.split(".");
    return key === undefined ? [] : [[`truth log, ${type}: ${key}`, meaning] as [string, string]];
  });
}

/** Runs the commands that write JSON, and returns the keys of their results. */
async function jsonKeys(): Promise<[string, string][]> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-surface-"));
  try {
    const file = join(folder, "keys.json");
    const child = Bun.spawn([process.execPath, `${root}scripts/surface/json-keys.ts`, file], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [, complaint] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    if ((await child.exited) !== 0) throw new Error(`the commands that write JSON failed:\n${complaint}`);
    return Object.entries(JSON.parse(readFileSync(file, "utf8")));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Folder of the type declarations that the package has. scripts/build.ts makes it. */
const TYPES = `${root}build/npm/llm-understudy/types/`;
export function readTypes(path: string): string {
  if (!existsSync(TYPES)) throw new Error("the types of the package are missing; build them with: npx bun run build");
  return existsSync(TYPES + path) ? readFileSync(TYPES + path, "utf8") : "";
}

const sorted = (rows: Iterable<readonly [string, string]>) =>
  Object.fromEntries([...rows].sort(([a], [b]) => (a < b ? -1 : 1)));

interface SurfaceSources {
  /** Returns the text of a source file, for the exit codes. */
  readonly source?: (path: string) => string;
  /** Returns the text of a declaration file. */
  readonly types?: (path: string) => string;
  /** Keys of JSON from an earlier call. If they are absent, the commands that write JSON run. */
  readonly json?: Readonly<Record<string, string>>;
}

export async function currentSurface({ source, types = readTypes, json }: SurfaceSources = {}): Promise<Surface> {
  const families = understudy.map(({ name, type }) => [name, type] as const);
  return {
    commands: sorted(commands()),
    flags: sorted(allFlags()),
    "YAML keys": sorted(yamlKeys()),
    "exit codes": sorted(exitCodes(source)),
    "JSON keys": json ?? sorted([...(await jsonKeys()), ...truthLines()]),
    routes: sorted(routes()),
    "metric families": sorted(families),
    types: sorted(typesOf(types)),
  };
}
