/** The options of `understudy proxy`. */

import { faultIds } from "../fault-ids.ts";
import { freeText, inGroup, integer, number, type OptionRow, one, onlyOn, row } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const url = one<URL>("URL", "an http or https URL, as http://127.0.0.1:8001", (written) => {
  try {
    const read = new URL(written);
    return /^https?:$/.test(read.protocol) ? read : undefined;
  } catch {
    return undefined;
  }
});

export const proxyOptions = {
  ...inGroup("Server", {
    to: row("Server to which the proxy forwards requests.", { ...url, default: "none, required" }),
    host: row("Address to listen on.", { ...freeText("ADDRESS", "an address"), default: "127.0.0.1" }),
    port: row("Port to listen on; 0: any free port.", { ...integer(0, 65_535), default: "8080" }),
    "ready-file": row("Write JSON with the URL and pid once the proxy accepts requests.", freeText("FILE", "a path")),
    "exit-with-parent": row("Exit when the parent process exits.", { ...onlyOn, default: "off" }),
  }),
  ...inGroup("Faults", {
    fault: row(
      "Apply this plan of faults to every answer: docs/reference/faults.md.",
      freeText("PLAN", "a plan of faults"),
    ),
    "fault-plan": row(
      "YAML file of rules for faults, as for understudy serve.",
      freeText("FILE", "the path of a YAML file"),
    ),
    "fault-rate": row("Percentage of answers that get one random fault.", { ...number(0, 100), default: "0" }),
    faults: row("Faults of --fault-rate.", { ...faultIds, default: "any of a stream" }),
    seed: row("Seed of the random choices.", { ...integer(0, 2 ** 32 - 1), default: "0" }),
  }),
  ...inGroup("Records", {
    record: row(
      "Record each POST, its answer and the times of its events as a fixture in this folder, for understudy serve --fixtures.",
      freeText("DIR", "the path of a folder"),
    ),
  }),
} as const satisfies Record<string, OptionRow>;

export type ProxyValues = ValuesOf<typeof proxyOptions>;

export const proxyHelp = (): string => `understudy proxy --to URL [options]

Forwards requests to a real server. Can apply faults to answers and record requests with their answers. docs/how-to/record.md

${optionsHelp(proxyOptions)}`;
