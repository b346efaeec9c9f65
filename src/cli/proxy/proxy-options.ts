/** The options of `understudy proxy`. */

import { faultIds } from "../fault-ids.ts";
import { freeText, inGroup, integer, number, type OptionRow, one, onlyOn } from "../options/option.ts";
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
    to: { ...url, default: "none, required", about: "Server to which the proxy forwards requests." },
    host: { ...freeText("ADDRESS", "an address"), default: "127.0.0.1", about: "Address to listen on." },
    port: { ...integer(0, 65_535), default: "8080", about: "Port to listen on; 0: any free port." },
    "ready-file": {
      ...freeText("FILE", "a path"),
      about: "Write JSON with the URL and pid once the proxy accepts requests.",
    },
    "exit-with-parent": { ...onlyOn, default: "off", about: "Exit when the parent process exits." },
  }),
  ...inGroup("Faults", {
    fault: {
      ...freeText("PLAN", "a plan of faults"),
      about: "Apply this plan of faults to every answer: docs/reference/faults.md.",
    },
    "fault-plan": {
      ...freeText("FILE", "the path of a YAML file"),
      about: "YAML file of rules for faults, as for understudy serve.",
    },
    "fault-rate": { ...number(0, 100), default: "0", about: "Percentage of answers that get one random fault." },
    faults: { ...faultIds, default: "any of a stream", about: "Faults of --fault-rate." },
    seed: { ...integer(0, 2 ** 32 - 1), default: "0", about: "Seed of the random choices." },
  }),
  ...inGroup("Records", {
    record: {
      ...freeText("DIR", "the path of a folder"),
      about:
        "Record each POST, its answer and the times of its events as a fixture in this folder, for understudy serve --fixtures.",
    },
  }),
} as const satisfies Record<string, OptionRow>;

export type ProxyValues = ValuesOf<typeof proxyOptions>;

export const proxyHelp = (): string => `understudy proxy --to URL [options]

Forwards requests to a real server. Can apply faults to answers and record requests with their answers. docs/how-to/record.md

${optionsHelp(proxyOptions)}`;
