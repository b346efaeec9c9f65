/** The options of `understudy stress`. */

import { ALIVE_PROTOCOL } from "../../tools/stress/alive.ts";
import { faultIds } from "../fault-ids.ts";
import { choice, freeText, inGroup, integer, type OptionRow, onlyOn, row, seconds } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const file = freeText("FILE", "a path");

export const stressOptions = {
  ...inGroup("Client", {
    client: row("reference: our client, which follows the standards. In a checkout also a pinned real client.", {
      ...freeText("NAME", "reference, or a name of test/clients/drivers (understudy stress --client list)"),
      default: "your command",
    }),
    protocol: row(
      "process: one process per case; the other: one process that reads a case per line: docs/how-to/stress.md.",
      { ...choice("process", ALIVE_PROTOCOL), default: "process" },
    ),
    wait: row("Serve the cases for this time to your own tests, which may post their results.", {
      ...seconds(0.1, 86_400),
      default: "off",
    }),
    retries: row("Number of retries that your client must make.", { ...integer(0, 100), default: "not checked" }),
    timeout: row("Timeout of the client, passed to it in UNDERSTUDY_TIMEOUT_MS.", {
      ...seconds(0.1, 600),
      default: "2s",
    }),
    hang: row("Time after the last byte of an answer at which the client counts as hanging.", {
      ...seconds(0.1, 600),
      default: "4s",
    }),
    concurrency: row("Concurrent cases.", { ...integer(1, 64), default: "4" }),
  }),
  ...inGroup("Cases", {
    faults: row("Faults to test, each in all its variants.", { ...faultIds, default: "all" }),
    replay: row("Run one case again, with the plan from a report.", freeText("PLAN", "a plan")),
    random: row(
      "Number of random plans of one to six faults. Failed plans are shrunk to their necessary faults.",
      integer(1, 100_000),
    ),
    seed: row("Seed of the random choices.", { ...integer(0), default: "1" }),
    seeds: row("Number of seeds to run each case with.", { ...integer(1, 1000), default: "1" }),
    port: row("Port on which the cases are served.", { ...integer(0, 65_535), default: "a free one" }),
  }),
  ...inGroup("Output", {
    json: row("Write all results as JSON to this file.", file),
    junit: row("Write all results as JUnit XML to this file.", file),
    html: row("Write a page with the bytes and times of each answer and the client's result.", file),
    expect: row("File of known verdicts, written by --json. Only other verdicts are errors.", file),
    "exit-with-parent": row("With --wait: exit when the parent process exits.", { ...onlyOn, default: "off" }),
    "ready-file": row(
      "With --wait: write JSON with the URL, the pid and the list of cases once they are served.",
      file,
    ),
  }),
} as const satisfies Record<string, OptionRow>;

export type StressValues = ValuesOf<typeof stressOptions>;

export const stressHelp = (): string => `understudy stress [options] -- COMMAND [ARGUMENT…]

Starts COMMAND once per case. It finds a server in OPENAI_BASE_URL (also ANTHROPIC_BASE_URL; {url} in its arguments), asks for
the model in UNDERSTUDY_MODEL, prints the text of the answer, and ends with a code other than 0 where it saw an error.
Exit code 0: no fault that it does not bear; 1: some; 2: it could not be run. docs/how-to/stress.md

${optionsHelp(stressOptions)}`;
