/** What can `understudy proxy` be told? */

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
    to: { ...url, default: "none, it has to be said", about: "The server behind the proxy." },
    host: { ...freeText("ADDRESS", "an address"), default: "127.0.0.1", about: "Address to listen on." },
    port: { ...integer(0, 65_535), default: "8080", about: "Port to listen on; 0 takes a free one." },
    "ready-file": {
      ...freeText("FILE", "a path"),
      default: "none",
      about: "JSON with the URL and pid, when requests are taken.",
    },
    "exit-with-parent": { ...onlyOn, default: "off", about: "Ends when whoever started it does." },
  }),
  ...inGroup("Faults", {
    fault: {
      ...freeText("PLAN", "a plan of faults"),
      default: "none",
      about: "Disturbs every answer: docs/faults.md.",
    },
    "fault-plan": { ...freeText("FILE", "the path of a YAML file"), default: "none", about: "Rules, as of serve." },
    "fault-rate": { ...number(0, 100), default: "0", about: "So many of a hundred answers get one fault by chance." },
    faults: { ...faultIds, default: "any of a stream", about: "Which ones by chance." },
    seed: { ...integer(0, 2 ** 32 - 1), default: "0", about: "Decides what is drawn." },
  }),
  ...inGroup("Records", {
    record: {
      ...freeText("DIR", "the path of a folder"),
      default: "none",
      about:
        "Keeps each POST with its answer and the times of its events as a fixture, which serve --fixtures plays back.",
    },
  }),
} as const satisfies Record<string, OptionRow>;

export type ProxyValues = ValuesOf<typeof proxyOptions>;

export const proxyHelp = (): string => `understudy proxy --to URL [options]

Stands before a real server: passes on what comes, disturbs answers by plans of faults, keeps what passes. docs/proxies.md

${optionsHelp(proxyOptions)}`;
