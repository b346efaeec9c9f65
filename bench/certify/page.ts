/** Formats the results of `bench certify` for the terminal and for docs/explanation/measuring.md. */
import { readFileSync } from "node:fs";
import { markdownTable } from "../../scripts/docs/markdown.ts";
import { type provenance, root } from "../lib/bench.ts";
import type { Comparison, Spread } from "./compare.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { tools } from "./tools.ts";

/** The result of one tool in one scenario. */
export interface ToolRun extends Comparison {
  readonly tool: string;
  readonly version: string;
  readonly scenario: string;
}

/** One line in bench/results/certify.jsonl. `changed`: true if the sources had uncommitted changes. */
export type Run = ReturnType<typeof provenance> & { readonly rows: readonly ToolRun[] };

function ms(value: number | null): string {
  if (value === null) return "–";
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2).replace(/^-(0(\.0+)?)$/, "$1");
}

const error = ({ p50, p99, count }: Spread) => (count === 0 ? "–" : `${ms(p50)} / ${ms(p99)}`);
const spread = ({ p50, p99, max, count }: Spread) => (count === 0 ? "–" : `${ms(p50)} / ${ms(p99)} / ${ms(max)}`);
const count = (value: number) => value.toLocaleString("en");

/** Returns a heading, then a row per run with the tool's errors. */
export function errorRows(rows: readonly ToolRun[]): string[][] {
  return [
    ["Scenario", "Tool", "Requests", "TTFT", "E2E", "TPOT", "Gap between chunks"],
    ...rows.map(({ scenario, tool, requests, missing, errors }) => [
      ...[scenario, tool, missing > 0 ? `${requests}, ${missing} unknown` : String(requests)],
      ...[error(errors.ttft), error(errors.e2e), error(errors.tpot), error(errors.gap)],
    ]),
  ];
}

/** Returns a heading, then a row per run with the tool's ITL and TPOT next to the true ones. */
export function meaningRows(rows: readonly ToolRun[]): string[][] {
  return [
    ["Scenario", "Tool", "Its ITL", "True ITL", "Its TPOT", "True TPOT", "Chunks counted, written"],
    ...rows.map(({ scenario, tool, chunks, reported, truth }) => [
      ...[scenario, tool, spread(reported.itl), spread(truth.itl), error(reported.tpot), error(truth.tpot)],
      `${count(chunks.tool)}, ${count(chunks.written)}`,
    ]),
  ];
}

/** Returns the text of each generated section of docs/explanation/measuring.md, by the name in its markers. */
export function sections(run: Run): Readonly<Record<string, string>> {
  return {
    tools: markdownTable([
      ["Tool", "Version", "Its ITL is made of"],
      ...tools.map(({ name, itl }) => [name, versionIn(run, name), itl]),
    ]),
    scenarios: markdownTable([["Scenario", "What"], ...scenarios.map((scenario) => [scenario.name, scenario.about])]),
    commands: commands(),
    machine: machineLine(run),
    errors: markdownTable(errorRows(run.rows)),
    meaning: markdownTable(meaningRows(run.rows)),
  };
}

const versionIn = ({ rows }: Run, name: string) => rows.find(({ tool }) => tool === name)!.version;

function machineLine({ date, commit, changed, machine, bun, realtime }: Run): string {
  const { cpu, cores, kernel, loadBefore } = machine;
  const ordinary = tools.filter(({ manyProcesses }) => manyProcesses).map(({ name }) => name);
  const conditions = realtime
    ? `, \`--realtime\` (server and tools before all else; ${ordinary.join(", ")} with more weight)`
    : "";
  return `Measured on ${date.slice(0, 10)} at commit ${commit}${changed ? " and uncommitted changes" : ""}, with ${cores} cores of ${cpu}, Linux ${kernel}, Bun ${bun}${conditions}; the machine was shared, its load average before the run was ${loadBefore}.`;
}

/** Returns the commands of the server and the tools in the first scenario, and the server's commands in the other scenarios. */
function commands(): string {
  const [plain, ...others] = scenarios as [Scenario, ...Scenario[]];
  const serve = ({ serve: flags }: Scenario) => `./bin/understudy serve --served-model-name m ${flags.join(" ")}`;
  const shown = tools.map(({ command, env }) => {
    const assigned = Object.entries(env ?? {}).map(([name, value]) => `${name}=${value} `);
    return assigned.join("") + command(plain, "http://127.0.0.1:8000", "build").join(" ");
  });
  const different = others
    .filter((scenario) => scenario.serve !== plain.serve)
    .map((scenario) => `${serve(scenario)}   # ${scenario.name}`);
  return ["```sh", serve(plain), ...different, "", ...shown, "```"].join("\n");
}

export function lastRun(): Run {
  const lines = readFileSync(`${root}bench/results/certify.jsonl`, "utf8").trimEnd().split("\n");
  return JSON.parse(lines.at(-1)!) as Run;
}
