/** `understudy fault`: lists the faults, or explains a plan and shows its effect on the bytes of an example. */
import { explainPlan, type ListedFault, listFaults } from "../../faults/explain.ts";
import { BrokenPlan, parsePlan } from "../../faults/parse.ts";
import { FAULT_ROWS } from "../../faults/table.ts";
import { printJson, printText } from "../print.ts";
import { refuser } from "../refuse.ts";

const refuse = refuser("fault");
const HELP = `understudy fault list [--json] [NAME…]
understudy fault explain PLAN

list     Prints all faults (docs/reference/faults.md), one variant per line. NAME: an id (J7), or a letter (J*).
explain  Prints the effect of a plan of faults, and the bytes of a short chat answer with it.`;

export function runFault(argv: readonly string[]): void {
  const [verb, ...words] = argv;
  if (argv.some((word) => word === "--help" || word === "-h")) printText(HELP);
  else if (verb === "list") list(words);
  else if (verb === "explain" && words.length === 1) explain(words[0]!);
  else refuse("accepts list [NAME…] or explain PLAN (understudy fault --help)");
}

function list(words: readonly string[]): void {
  const names = words.filter((word) => word !== "--json");
  const rows = [...FAULT_ROWS.values()];
  const isNamed = (id: string, name: string) => id === name || (/^[A-Z]\*$/.test(name) && id[0] === name[0]);
  const unknown = names.find((name) => !rows.some(({ id }) => isNamed(id, name)));
  if (unknown !== undefined) {
    refuse(`${unknown}: not a fault; accepted are ids (J7) and letters (J*)`);
    return;
  }
  const chosen = rows.filter(({ id }) => names.length === 0 || names.some((name) => isNamed(id, name)));
  const faults = listFaults(chosen);
  if (words.includes("--json")) printJson(faults, 1);
  else printText(faultLines(faults).join("\n"));
}

function faultLines(faults: readonly ListedFault[]): string[] {
  const wide = Math.max(...faults.map(({ fault }) => fault.length));
  const note = (ordered: boolean) => (ordered ? "" : " (an act of the client; plans cannot contain it)");
  return faults.map(({ fault, what, ordered }) => `${fault.padEnd(wide)}  ${what}${note(ordered)}`);
}

function explain(plan: string): void {
  try {
    printText(explainPlan(parsePlan(plan)));
  } catch (error) {
    if (!(error instanceof BrokenPlan)) throw error;
    refuse(error.message);
  }
}
