/** `understudy fault explain PLAN`: a plan in words, and the bytes that it makes of an example. */
import { explained } from "../../faults/explain.ts";
import { BrokenPlan, parsePlan } from "../../faults/parse.ts";
import { printText } from "../print.ts";
import { refuser } from "../refuse.ts";

const refuse = refuser("fault");
const HELP = `understudy fault explain PLAN

Says what a plan of faults (docs/faults.md) does, and shows the bytes that it makes of a short answer of chat.`;

export function runFault(argv: readonly string[]): void {
  const [verb, plan, ...more] = argv;
  if (argv.some((word) => word === "--help" || word === "-h")) printText(HELP);
  else if (verb !== "explain" || plan === undefined || more.length > 0)
    refuse("explain PLAN is all that it takes (understudy fault --help)");
  else explain(plan);
}

function explain(plan: string): void {
  try {
    printText(explained(parsePlan(plan)));
  } catch (error) {
    if (!(error instanceof BrokenPlan)) throw error;
    refuse(error.message);
  }
}
