/** Formats the verdicts on real clients as Markdown for docs/reference/client-verdicts.md. */
import { existsSync, readFileSync } from "node:fs";
import { drivers } from "../../src/cli/stress/stress-clients.ts";
import { parsePlan } from "../../src/faults/parse.ts";
import type { PlannedFault } from "../../src/faults/plan/types.ts";
import { plannedRule } from "../../src/faults/rows/row.ts";
import { isRed, type StressVerdict } from "../../src/tools/stress/verdict.ts";
import { driverPackages } from "../../test/clients/drivers/packages.ts";
import { cellText, markdownTable } from "./markdown.ts";
import { textsOf } from "./rows.ts";

/** URL of the file with the results, which scripts/clients-verdicts.ts writes. */
export const RESULTS = new URL("../../test/results/client-verdicts.json", import.meta.url);

export interface ClientVerdicts {
  readonly client: string;
  readonly seconds: readonly number[];
  /** By plan of faults: the verdicts on the client, one for each round of the test. */
  readonly cells: Readonly<Record<string, readonly string[]>>;
  /** Reason for each red verdict, by plan. */
  readonly why: Readonly<Record<string, string>>;
}

/** Discussion threads of clients and proxies in which a user reports a fault, by the id of the fault. */
const THREADS = textsOf("threads.yaml");

const SHORT: Readonly<Record<string, string>> = { ok: "·", policy: "○", void: "–" };
const isStable = (all: readonly string[]) => new Set(all).size === 1;

/** Returns the verdicts of all clients that were run, in the order of the drivers. */
export function knownVerdicts(): ClientVerdicts[] {
  const known: ClientVerdicts[] = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, "utf8")) : [];
  const order = Object.keys(drivers());
  return known.sort((a, b) => order.indexOf(a.client) - order.indexOf(b.client));
}

export function verdictsMarkdown(known: readonly ClientVerdicts[]): string {
  const cells = known.flatMap(({ cells }) => Object.values(cells));
  const equal = cells.filter(isStable).length;
  return [
    `${known.length} clients, ${Object.keys(known[0]?.cells ?? {}).length} cases each, ${known[0]?.seconds.length ?? 0} rounds: ${((100 * equal) / cells.length).toFixed(1)} % of ${cells.length} cells came out the same each time.`,
    "",
    clientsTable(known),
    "",
    "## Cases that are red for somebody",
    "",
    casesTable(known),
    "",
    "## What was seen",
    "",
    ...details(known),
  ].join("\n");
}

function clientsTable(known: readonly ClientVerdicts[]): string {
  const rows = known.map(({ client, cells, seconds }) => {
    const first = Object.values(cells);
    const count = (which: (verdict: string) => boolean) => first.filter(([one]) => which(one!)).length;
    const red = count((one) => isRed(one as StressVerdict));
    const unstable = first.filter((all) => !isStable(all)).length;
    const [ok, policy, empty] = ["ok", "policy", "void"].map((verdict) => count((one) => one === verdict));
    return [`\`${client}\``, driverPackages(client), ok!, red, policy!, empty!, unstable, Math.max(...seconds)];
  });
  return markdownTable([["Client", "Version", "ok", "red", "policy", "void", "unstable", "s"], ...rows]);
}

/** Returns the plan without the seed, which is the same in all plans: `B8` for `B8#seed=1`. */
const shortPlan = (plan: string) => plan.replace(/#seed=1$/, "");
const plansOf = (known: readonly ClientVerdicts[]) => [...new Set(known.flatMap(({ cells }) => Object.keys(cells)))];
const isRedCell = (all: readonly string[] | undefined) => all?.some((one) => isRed(one as StressVerdict)) === true;

/**
 * Returns a table with one row per fault case. Each row names the clients, because a table with a column per client would be
 * too wide.
 */
function casesTable(known: readonly ClientVerdicts[]): string {
  const rows = plansOf(known)
    .filter((plan) => known.some(({ cells }) => isRedCell(cells[plan])))
    .map((plan) => {
      const by = new Map<string, string[]>();
      for (const { client, cells } of known) {
        const all = cells[plan] ?? [];
        if (!isRedCell(all)) continue;
        const verdict = isStable(all)
          ? all[0]!
          : `unstable (${[...new Set(all)].map((one) => SHORT[one] ?? one).join(", ")})`;
        by.set(verdict, [...(by.get(verdict) ?? []), client]);
      }
      const [fault] = parsePlan(plan).faults as [PlannedFault];
      const rule = plannedRule(fault);
      const who = [...by].map(([verdict, names]) => `**${verdict}**: ${names.join(", ")}`).join("; ");
      const threads = THREADS[fault.row.id] ?? "";
      return [`\`${shortPlan(plan)}\``, cellText(rule.what), cellText(rule.oracle), cellText(rule.text), who, threads];
    });
  const head = ["Case", "On the wire", "A correct client", "By", "Who does not", "Threads of the like"];
  return markdownTable([head, ...rows]);
}

function details(known: readonly ClientVerdicts[]): string[] {
  return known.flatMap(({ client, why, cells }) => {
    const red = Object.entries(why);
    if (red.length === 0) return [`### ${client}`, "", "Nothing is red.", ""];
    const rows = red.map(([plan, reason]) => {
      const verdicts = [...new Set(cells[plan])].join(", ");
      return [`\`${shortPlan(plan)}\``, verdicts, cellText(printable(reason))];
    });
    return [`### ${client}`, "", markdownTable([["Again with `--replay`", "Verdict", ""], ...rows]), ""];
  });
}

const printable = (text: string) =>
  [...text]
    .map((character) => (character >= " " && character !== "\u007f" ? character : "·"))
    .join("")
    .replaceAll("`", "'")
    // Replace ports and object ids, which differ in each run.
    .replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replace(/0x[0-9a-f]{6,}/g, "0x…")
    .replace(/\/\S*\/site-packages\//g, "");
