/**
 * Runs the commands that write JSON, and writes the keys of their results, with the types of the values, to a file:
 * `bun scripts/surface/json-keys.ts FILE`. The program runs in a process of its own, because the commands print tables and set
 * the exit code.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCheck } from "../../src/cli/check/check.ts";
import { runFault } from "../../src/cli/fault/fault.ts";
import { runLoad } from "../../src/cli/load/load.ts";
import { runReplay } from "../../src/cli/replay/replay.ts";
import { runStress } from "../../src/cli/stress/stress.ts";
import { runTiming } from "../../src/cli/timing/timing.ts";
import { runTruth } from "../../src/cli/truth/truth.ts";
import { createServer } from "../../src/embed/bun.ts";

/**
 * Objects and lists whose members are not recorded. Some have names of the user, of metrics or of the engine's configuration.
 * Others depend on the load of the machine, or the library exports their types.
 */
const OPEN = [
  ...["metadata", "engine", "body", "headers", "labels", "memory", "errors", "warnings", "adj", "wire", "gapsMs"],
  ...["before", "after", "delta", "violations", "violated", "notes", "unreadable"],
];
const isOpen = (path: string): boolean =>
  OPEN.includes(path.slice(path.lastIndexOf(".") + 1)) || path.endsWith("server_metrics.timeseries");

/**
 * Types of lines of `GET /understudy/requests` whose keys are not recorded here. `surface.ts` takes them from the types of the
 * truth log, because some keys are present only on a busy machine.
 */
const TRUTH_LINES = ["header", "step", "request"];

const keys = new Map<string, string>();

/** Names the type of a value. A distribution has the same keys everywhere, so they are a part of its type. */
function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value === "object" && "count" in value && "mean" in value)
    return `distribution: ${Object.keys(value).sort().join(", ")}`;
  return typeof value;
}

/** Records a value and its members. A null shows no type, so another value of the key replaces it. */
function record(result: string, value: unknown, path = ""): void {
  const type = typeOf(value);
  const name = `${result}: ${path}`;
  if (path !== "" && (type !== "null" || !keys.has(name))) keys.set(name, type);
  if (isOpen(path)) return;
  if (Array.isArray(value)) for (const item of value) record(result, item, `${path}[]`);
  if (type !== "object") return;
  for (const [key, member] of Object.entries(value as object))
    record(result, member, path === "" ? key : `${path}.${key}`);
}

const fromFile = (name: string, path: string) => record(name, JSON.parse(readFileSync(path, "utf8")));
const fromLines = (name: string, text: string) => {
  for (const line of text.split("\n").filter(Boolean)) {
    const row = JSON.parse(line) as { readonly type?: string };
    if (row.type === undefined) record(name, row);
    else if (!TRUTH_LINES.includes(row.type)) record(`${name} ${row.type}`, row);
  }
};

/** Returns the standard output of a command. */
async function printed(run: () => unknown): Promise<string> {
  const [print, lines] = [console.log, [] as string[]];
  console.log = (text: string) => lines.push(text);
  try {
    await run();
  } finally {
    console.log = print;
  }
  return lines.join("\n");
}

const folder = mkdtempSync(join(tmpdir(), "understudy-keys-"));
const at = (name: string) => join(folder, name);
const quietly = (run: () => unknown) => printed(run);

async function ofReplay(): Promise<void> {
  const trace = "synthetic:isl=20,osl=4,concurrency=2,requests=6";
  await quietly(() => runReplay([trace, "--json", at("replay.json"), "--truth-log", at("truth.jsonl")]));
  fromFile("replay --json", at("replay.json"));
  record("truth --json", JSON.parse(await printed(() => runTruth([at("truth.jsonl"), "--json"]))));
  const triton = ["--role", "triton", "--model", "add_sub", trace];
  await quietly(() => runReplay([...triton, "--json", at("triton.json")]));
  fromFile("replay --role triton --json", at("triton.json"));
}

async function ofServer(): Promise<void> {
  const timing = "constant:ttft=5ms,itl=2ms";
  const server = createServer({ timing, model: "m", adminKey: "k", keepBodies: true });
  const { url } = await server.ready;
  const size = ["--num-prompts", "6", "--max-concurrency", "2", "--random-input-len", "8", "--random-output-len", "4"];
  const more = ["--goodput", "ttft:1000", "--check-truth", "--save-detailed", "--json", at("load.json")];
  await quietly(() => runLoad(["--base-url", url, "--ignore-eos", ...size, ...more]));
  fromFile("load --json", at("load.json"));
  fromLines("load --save-detailed", readFileSync(at("load.requests.jsonl"), "utf8"));
  const page = async (path: string, init: RequestInit = {}) => (await fetch(url + path, init)).text();
  fromLines("GET /understudy/requests", await page("/understudy/requests"));
  fromLines("GET /understudy/requests?sent=1", await page("/understudy/requests?sent=1"));
  const headers = { authorization: "Bearer k" };
  record("GET /admin/config", JSON.parse(await page("/admin/config", { headers })));
  writeFileSync(at("page.txt"), await page("/metrics"));
  await quietly(() => runCheck([at("page.txt"), "--json", at("check.json")]));
  fromFile("check --json", at("check.json"));
  await server.close();
}

async function ofOthers(): Promise<void> {
  await quietly(() => runStress(["--client", "reference", "--faults", "B8", "--json", at("stress.json")]));
  fromFile("stress --json", at("stress.json"));
  record("fault list --json", JSON.parse(await printed(() => runFault(["list", "--json"]))));
  record("timing list --json", JSON.parse(await printed(() => runTiming(["list", "--json"]))));
  record(
    "timing show --json",
    JSON.parse(await printed(() => runTiming(["show", "linear:base=4ms,prefill=0.02ms,decode=0.03ms", "--json"]))),
  );
}

try {
  await ofReplay();
  await ofServer();
  await ofOthers();
} finally {
  rmSync(folder, { recursive: true });
}
writeFileSync(process.argv[2]!, JSON.stringify(Object.fromEntries([...keys].sort())));
process.exit(0);
