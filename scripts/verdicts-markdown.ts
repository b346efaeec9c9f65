/** How does docs/client-verdicts.md show what clients came to? */
import { parsePlan } from "../src/faults/parse.ts";
import { isRed, type StressVerdict } from "../src/stress/verdict.ts";
import { driverPackages } from "../test/clients/drivers/packages.ts";

export interface ClientVerdicts {
  readonly client: string;
  readonly seconds: readonly number[];
  /** By plan: the verdict of each round. */
  readonly cells: Readonly<Record<string, readonly string[]>>;
  /** By plan that was red: what was said of it. */
  readonly why: Readonly<Record<string, string>>;
}

const SHORT: Readonly<Record<string, string>> = { ok: "·", policy: "○", void: "–" };
const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
const isStable = (all: readonly string[]) => new Set(all).size === 1;

export function verdictsMarkdown(known: readonly ClientVerdicts[]): string {
  const cells = known.flatMap((one) => Object.values(one.cells));
  const equal = cells.filter(isStable).length;
  return [
    `${known.length} clients, ${Object.keys(known[0]?.cells ?? {}).length} cases each, ${known[0]?.seconds.length ?? 0} rounds: ${((100 * equal) / cells.length).toFixed(1)} % of ${cells.length} cells came out the same each time.`,
    "",
    ...clientsTable(known),
    "",
    "## Cases that are red for somebody",
    "",
    ...casesTable(known),
    "",
    "## What was seen",
    "",
    ...details(known),
  ].join("\n");
}

function clientsTable(known: readonly ClientVerdicts[]): string[] {
  const rows = known.map(({ client, cells, seconds }) => {
    const first = Object.values(cells);
    const count = (which: (verdict: string) => boolean) => first.filter(([one]) => which(one!)).length;
    const red = count((one) => isRed(one as StressVerdict));
    const unstable = first.filter((all) => !isStable(all)).length;
    const counts = [
      count((one) => one === "ok"),
      red,
      count((one) => one === "policy"),
      count((one) => one === "void"),
    ];
    return `| \`${client}\` | ${driverPackages(client)} | ${counts.join(" | ")} | ${unstable} | ${Math.max(...seconds)} |`;
  });
  return [
    "| Client | Version | ok | red | policy | void | unstable | s |",
    "|---|---|---|---|---|---|---|---|",
    ...rows,
  ];
}

/** `B8#seed=1` without the seed that all have. */
const shortPlan = (plan: string) => plan.replace(/#seed=1$/, "");
const plansOf = (known: readonly ClientVerdicts[]) => [...new Set(known.flatMap(({ cells }) => Object.keys(cells)))];
const isRedCell = (all: readonly string[] | undefined) => all?.some((one) => isRed(one as StressVerdict)) === true;

/** A column per client would be too wide: who does what stands in the row. */
function casesTable(known: readonly ClientVerdicts[]): string[] {
  const rows = plansOf(known)
    .filter((plan) => known.some(({ cells }) => isRedCell(cells[plan])))
    .map((plan) => {
      const by = new Map<string, string[]>();
      for (const { client, cells } of known) {
        const all = cells[plan] ?? [];
        if (!isRedCell(all)) continue;
        const said = isStable(all)
          ? all[0]!
          : `unstable (${[...new Set(all)].map((one) => SHORT[one] ?? one).join(", ")})`;
        by.set(said, [...(by.get(said) ?? []), client]);
      }
      const { row } = parsePlan(plan).faults[0]!;
      const who = [...by].map(([verdict, names]) => `**${verdict}**: ${names.join(", ")}`).join("; ");
      return `| \`${shortPlan(plan)}\` | ${cell(row.what)} | ${cell(row.oracle)} | ${cell(row.text)} | ${who} |`;
    });
  return ["| Case | On the wire | A correct client | By | Who does not |", "|---|---|---|---|---|", ...rows];
}

function details(known: readonly ClientVerdicts[]): string[] {
  return known.flatMap(({ client, why, cells }) => {
    const red = Object.entries(why);
    if (red.length === 0) return [`### ${client}`, "", "Nothing is red.", ""];
    const lines = red.map(
      ([plan, said]) =>
        `| \`${shortPlan(plan)}\` | ${[...new Set(cells[plan])].join(", ")} | ${cell(printable(said))} |`,
    );
    return [`### ${client}`, "", "| Again with `--replay` | Verdict | |", "|---|---|---|", ...lines, ""];
  });
}

const printable = (text: string) =>
  [...text]
    .map((one) => (one >= " " && one !== "\u007f" ? one : "·"))
    .join("")
    .replaceAll("`", "'")
    .replaceAll("<", "&lt;")
    // Ports and object ids of a run are nobody's news.
    .replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replace(/0x[0-9a-f]{6,}/g, "0x…")
    .replace(/\/\S*\/site-packages\//g, "");
