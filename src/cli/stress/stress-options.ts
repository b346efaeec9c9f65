/** The options of `understudy stress`. */

import { ALIVE_PROTOCOL } from "../../tools/stress/alive.ts";
import { faultIds } from "../fault-ids.ts";
import { choice, freeText, inGroup, integer, type OptionRow, onlyOn, seconds } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const file = freeText("FILE", "a path");

export const stressOptions = {
  ...inGroup("Client", {
    client: {
      ...freeText("NAME", "reference, or a name of test/clients/drivers (understudy stress --client list)"),
      default: "your command",
      about: "reference: our client, which follows the standards. In a checkout also a pinned real client.",
    },
    protocol: {
      ...choice("process", ALIVE_PROTOCOL),
      default: "process",
      about: "process: one process per case; the other: one process that reads a case per line: docs/how-to/stress.md.",
    },
    wait: {
      ...seconds(0.1, 86_400),
      default: "off",
      about: "Serve the cases for this time to your own tests, which may post their results.",
    },
    retries: {
      ...integer(0, 100),
      default: "not checked",
      about: "Number of retries that your client must make.",
    },
    timeout: {
      ...seconds(0.1, 600),
      default: "2s",
      about: "Timeout of the client, passed to it in UNDERSTUDY_TIMEOUT_MS.",
    },
    hang: {
      ...seconds(0.1, 600),
      default: "4s",
      about: "Time after the last byte of an answer at which the client counts as hanging.",
    },
    concurrency: { ...integer(1, 64), default: "4", about: "Concurrent cases." },
  }),
  ...inGroup("Cases", {
    faults: { ...faultIds, default: "all", about: "Faults to test, each in all its variants." },
    replay: {
      ...freeText("PLAN", "a plan"),
      about: "Run one case again, with the plan from a report.",
    },
    random: {
      ...integer(1, 100_000),
      about: "Number of random plans of one to six faults. Failed plans are shrunk to their necessary faults.",
    },
    seed: { ...integer(0), default: "1", about: "Seed of the random choices." },
    seeds: { ...integer(1, 1000), default: "1", about: "Number of seeds to run each case with." },
    port: { ...integer(0, 65_535), default: "a free one", about: "Port on which the cases are served." },
  }),
  ...inGroup("Output", {
    json: { ...file, about: "Write all results as JSON to this file." },
    junit: { ...file, about: "Write all results as JUnit XML to this file." },
    html: {
      ...file,
      about: "Write a page with the bytes and times of each answer and the client's result.",
    },
    expect: {
      ...file,
      about: "File of known verdicts, written by --json. Only other verdicts are errors.",
    },
    "exit-with-parent": { ...onlyOn, default: "off", about: "With --wait: exit when the parent process exits." },
    "ready-file": {
      ...file,
      about: "With --wait: write JSON with the URL, the pid and the list of cases once they are served.",
    },
  }),
} as const satisfies Record<string, OptionRow>;

export type StressValues = ValuesOf<typeof stressOptions>;

export const stressHelp = (): string => `understudy stress [options] -- COMMAND [ARGUMENT…]

Starts COMMAND once per case. It finds a server in OPENAI_BASE_URL (also ANTHROPIC_BASE_URL; {url} in its arguments), asks for
the model in UNDERSTUDY_MODEL, prints the text of the answer, and ends with a code other than 0 where it saw an error.
Exit code 0: no fault that it does not bear; 1: some; 2: it could not be run. docs/how-to/stress.md

${optionsHelp(stressOptions)}`;
