/** Defines the options of `understudy truth` in one table. */

import { MEASURED_UNITS } from "../../tools/load/measured-file.ts";
import { choice, freeText, inGroup, onlyOn } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

export const truthOptions = inGroup("", {
  since: {
    ...freeText("CURSOR", "a cursor that an earlier call printed"),
    default: "all that the server keeps",
    about: "Rows from this cursor on. A URL only.",
  },
  json: { ...onlyOn, default: "false", about: "Print JSON in place of the table." },
  compare: {
    ...freeText("FILE", "a path of CSV or JSON Lines"),
    default: "none",
    about: "What a load tool measured: request_id with ttft, e2e or both. Prints measured minus true.",
  },
  unit: {
    ...choice(...MEASURED_UNITS),
    default: "ms",
    about: "Unit of columns of --compare whose names do not end with one, as ttft_ms does.",
  },
  "api-key": { ...freeText("KEY", "the server's key"), default: "none", about: "Key of a server with --api-key." },
});

export type TruthValues = ValuesOf<typeof truthOptions>;

export const truthHelp = (): string => `understudy truth URL|FILE [options]

What each request of an Understudy server really experienced, for a run of any load tool: TTFT, ITL, TPOT and E2E as the
server wrote them. URL is a running server, FILE its truth log (--truth-log; - is standard input).

${optionsHelp(truthOptions)}

Exit code: 0 there were requests, 1 there were none (or none that --compare knows), 2 it could not look.`;
