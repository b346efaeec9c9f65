/** The options of `understudy truth`. */

import { MEASURED_UNITS } from "../../tools/load/measured-file.ts";
import { choice, freeText, inGroup, onlyOn, row } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

export const truthOptions = inGroup("", {
  since: row("Print only rows after this cursor. Only with a URL.", {
    ...freeText("CURSOR", "a cursor that an earlier call printed"),
    default: "all that the server keeps",
  }),
  json: row("Print JSON in place of the table.", onlyOn),
  compare: row(
    "File of measured times: request_id with ttft, e2e or both. Also prints measured minus true times.",
    freeText("FILE", "a path of CSV or JSON Lines"),
  ),
  unit: row("Unit of the columns of --compare, unless their names end with a unit, as ttft_ms does.", {
    ...choice(...MEASURED_UNITS),
    default: "ms",
  }),
  "api-key": row("API key of the server, if it needs one.", freeText("KEY", "the server's key")),
});

export type TruthValues = ValuesOf<typeof truthOptions>;

export const truthHelp = (): string => `understudy truth URL|FILE [options]

Prints the true times of each request of an Understudy server, for a run of any load tool: TTFT, ITL, TPOT and E2E as the
server sent them. URL is a running server, FILE its truth log (--truth-log; - is standard input).

${optionsHelp(truthOptions)}

Exit code: 0 there were requests, 1 there were none (or none of them in --compare), 2 the truth could not be read.`;
