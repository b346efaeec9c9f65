/**
 * Runs each real client of test/clients/drivers against all fault cases and records which faults it does not handle: `npx bun
 * run scripts/clients-verdicts.ts [-- --rounds 3] [--client NAME,NAME]`. Drivers in Go and Rust are built first. The results go
 * to test/results/client-verdicts.json. After that, `npx bun run docs` writes docs/reference/client-verdicts.md.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { drivers } from "../src/cli/stress/stress-clients.ts";
import { isRed, type StressVerdict } from "../src/tools/stress/verdict.ts";
import { buildDrivers } from "../test/clients/drivers/builds.ts";
import { type ClientVerdicts, knownVerdicts, RESULTS } from "./docs/verdicts.ts";

const root = new URL("../", import.meta.url).pathname;

const words = process.argv.slice(2);
const optionOf = (name: string) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined);
const rounds = Number(optionOf("--rounds") ?? 3);
const only = optionOf("--client")?.split(",");

const known = knownVerdicts();

/**
 * Runs one round of a client against all plans of faults. `cells`: the client's verdict by plan. `why`: the reason for each red
 * verdict, by plan. Null if the client could not run.
 */
async function round(
  name: string,
): Promise<{ cells: Record<string, string>; why: Record<string, string>; seconds: number } | null> {
  const file = `${root}build/verdicts-${process.pid}.json`;
  const began = performance.now();
  const command = [
    process.execPath,
    `${root}src/main.ts`,
    "stress",
    "--client",
    name,
    "--json",
    file,
    "--concurrency",
    "6",
  ];
  const child = Bun.spawn(command, { stdout: "ignore", stderr: "pipe" });
  const [complaint, code] = await Promise.all([child.stderr.text(), child.exited]);
  if (code > 1) {
    console.log(`${name}: not run: ${complaint.trim() || "it never called"}`);
    return null;
  }
  const { results } = JSON.parse(readFileSync(file, "utf8")) as {
    results: { plan: string; verdict: StressVerdict; why: string }[];
  };
  rmSync(file);
  const seconds = Math.round((performance.now() - began) / 100) / 10;
  const cells = Object.fromEntries(results.map(({ plan, verdict }) => [plan, verdict]));
  const why = Object.fromEntries(
    results.filter(({ verdict }) => isRed(verdict)).map(({ plan, why }) => [plan, why.slice(0, 160)]),
  );
  return { cells, why, seconds };
}

buildDrivers((name) => only?.includes(name) ?? true);
for (const name of Object.keys(drivers())) {
  if (only !== undefined && !only.includes(name)) continue;
  const all: NonNullable<Awaited<ReturnType<typeof round>>>[] = [];
  for (let n = 0; n < rounds; n++) {
    const result = await round(name);
    if (result === null) break;
    all.push(result);
    console.log(
      `${name}, round ${n + 1}: ${result.seconds} s, ${Object.keys(result.why).length} red of ${Object.keys(result.cells).length}`,
    );
  }
  if (all.length < rounds) continue;
  const verdicts: ClientVerdicts = {
    client: name,
    seconds: all.map(({ seconds }) => seconds),
    cells: Object.fromEntries(Object.keys(all[0]!.cells).map((plan) => [plan, all.map(({ cells }) => cells[plan]!)])),
    why: Object.assign({}, ...all.map(({ why }) => why)),
  };
  const at = known.findIndex(({ client }) => client === name);
  if (at === -1) known.push(verdicts);
  else known[at] = verdicts;
  writeFileSync(RESULTS, `${JSON.stringify(known, null, 1)}\n`);
}
const cells = known.flatMap(({ cells }) => Object.values(cells));
const equal = cells.filter((all) => new Set(all).size === 1).length;
console.log(
  `${known.length} clients, ${cells.length} cells, ${((100 * equal) / cells.length).toFixed(1)} % equal in all rounds`,
);
