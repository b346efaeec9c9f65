/** What can `understudy stress` be told? */

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
      about: "A client of ours, which reads by the standards; in a checkout also a real one, pinned.",
    },
    protocol: {
      ...choice("process", ALIVE_PROTOCOL),
      default: "process",
      about: "A process per case, or one that stays alive and reads a case per line: docs/stress.md.",
    },
    wait: {
      ...seconds(0.1, 86_400),
      default: "off",
      about: "Serves the cases so long for your own tests, which may post what they saw.",
    },
    retries: {
      ...integer(0, 100),
      default: "not said",
      about: "How often your client tries again: it is held to that.",
    },
    timeout: {
      ...seconds(0.1, 600),
      default: "2s",
      about: "The client's own timeout, which it finds in UNDERSTUDY_TIMEOUT_MS.",
    },
    hang: { ...seconds(0.1, 600), default: "4s", about: "So long after the last byte an answer must have ended." },
    concurrency: { ...integer(1, 64), default: "4", about: "Cases at once." },
  }),
  ...inGroup("Cases", {
    faults: { ...faultIds, default: "all", about: "These faults, each in all its ways." },
    replay: { ...freeText("PLAN", "a plan"), default: "none", about: "One case again, from the line of a report." },
    random: {
      ...integer(1, 100_000),
      default: "none",
      about: "So many plans of one to six faults, drawn by chance; red ones are shrunk to what is needed of them.",
    },
    seed: { ...integer(0), default: "1", about: "Decides what is drawn." },
    seeds: { ...integer(1, 1000), default: "1", about: "Each case with so many seeds." },
    port: { ...integer(0, 65_535), default: "a free one", about: "Where the cases are served." },
  }),
  ...inGroup("Output", {
    json: { ...file, default: "none", about: "All results as JSON." },
    junit: { ...file, default: "none", about: "All results as JUnit's XML." },
    html: { ...file, default: "none", about: "A page: what left and when beside what the client said." },
    expect: { ...file, default: "none", about: "Known verdicts, as --json wrote them: only another one is an error." },
    "exit-with-parent": { ...onlyOn, default: "off", about: "With --wait: ends when whoever started it does." },
    "ready-file": { ...file, default: "none", about: "JSON with the URL and the cases, written when they are served." },
  }),
} as const satisfies Record<string, OptionRow>;

export type StressValues = ValuesOf<typeof stressOptions>;

export const stressHelp = (): string => `understudy stress [options] -- COMMAND [ARGUMENT…]

Starts COMMAND once per case. It finds a server in OPENAI_BASE_URL (also ANTHROPIC_BASE_URL; {url} in its arguments), asks for
the model in UNDERSTUDY_MODEL, prints the text of the answer, and ends with a code other than 0 where it saw an error.
Exit code 0: no fault that it does not bear; 1: some; 2: it could not be run. docs/stress.md

${optionsHelp(stressOptions)}`;
