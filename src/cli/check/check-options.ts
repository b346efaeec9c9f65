/** The options of `understudy check`. An option that states a flag of the checked server has the name of that flag. */

import { laws } from "../../tools/check/index.ts";
import { isVersion } from "../../tools/check/pages/versions.ts";
import {
  commaList,
  freeText,
  inGroup,
  integer,
  number,
  type Option,
  type OptionRow,
  onlyOn,
  seconds,
  toggle,
} from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const duration = seconds(0.01, 86_400, "a duration from 10ms to 24h, as in 500ms, 1s or 2m");

const names = commaList("NAME,…", "names with commas between them");

const lawIds: Option<readonly string[]> = {
  ...names,
  accepts: "ids of laws with commas between them, as in V15,G10",
  metavar: "ID,…",
  read: (texts) => {
    const ids = names.read(texts)?.map((id) => id.toUpperCase());
    return ids?.every((id) => laws.some((law) => law.id === id)) ? ids : undefined;
  },
};

const engineVersions = commaList(
  "VERSION,…",
  "versions of vLLM, TensorRT-LLM or Triton with commas between them, as in V0, 0.10.2, 1.1 or 23.10",
  isVersion,
);

const file = freeText("FILE", "a path to write");

export const checkOptions = {
  ...inGroup("Watch", {
    every: { ...duration, default: "1s", about: "Time between two scrapes of a watch." },
    for: { ...duration, default: "one scrape", about: "Time to watch." },
    timeout: { ...duration, default: "10s", about: "Maximum time of one scrape." },
    "max-mb": {
      ...number(0, 256, "min"),
      default: "16",
      about: "Maximum size of a page in MiB; larger pages are not read.",
    },
    openmetrics: { ...onlyOn, about: "Request OpenMetrics in place of text format 0.0.4." },
    triton: {
      ...freeText("URL", "the address of Triton's HTTP service"),
      about: "Also compare with /v2/models/stats of this server (law N11).",
    },
  }),
  ...inGroup("What you know", {
    rest: {
      ...onlyOn,
      about: "Declare that no request ran at the last scrape. Without it, two idle scrapes must show that.",
    },
    clean: {
      ...onlyOn,
      about:
        "Declare that since the server's start no client disconnected and no request failed. Metrics do not show that.",
    },
    "engine-version": {
      ...engineVersions,
      default: "from the page",
      about:
        "Versions of vLLM (V0, 0.10.2), TensorRT-LLM (1.1) or Triton (23.10). Laws of other versions are left out.",
    },
    names: {
      ...freeText("FILE", "a path of a JSON file"),
      about: "File that maps metric families of your own engine to those of a dialect. The dialect's laws then apply.",
    },
    "rest-gauges": {
      ...names,
      default: "those of the dialect",
      about: "More gauges of running work, by their names on the page. They must be 0 at rest (law G19).",
    },
  }),
  ...inGroup("Flags of the server", {
    "max-num-seqs": { ...integer(1), default: "unknown", about: "Maximum sequences in a step." },
    "max-model-len": { ...integer(1), default: "unknown", about: "Maximum tokens of prompt plus answer." },
    "block-size": { ...integer(1), default: "from cache_config_info", about: "Tokens per KV block." },
    "num-gpu-blocks": {
      ...integer(2),
      default: "from cache_config_info",
      about: "KV blocks of one engine, including the null block.",
    },
    "enable-prefix-caching": { ...toggle, default: "from cache_config_info", about: "Whether prefixes are cached." },
    "num-speculative-tokens": { ...integer(0), default: "0", about: "Draft tokens per step." },
    "max-loras": { ...integer(1), default: "from the labels", about: "Maximum different LoRA adapters in a batch." },
    "api-server-count": {
      ...integer(1),
      default: "1",
      about: "Processes behind one page. If above 1, families may differ by a step; larger differences are warnings.",
    },
    "min-step-ms": { ...number(0, 1e6, "min"), default: "unknown", about: "Shortest step in milliseconds." },
    decoupled: {
      ...names,
      about: "Decoupled Triton models, which may send several responses per request.",
    },
    ensembles: { ...names, default: "from the page", about: "Triton models that are ensembles." },
    "batch-of-one": {
      ...onlyOn,
      about: "Declare that all requests to Triton have a batch size of 1.",
    },
    "no-evict": { ...onlyOn, about: "Declare that TensorRT-LLM runs with GUARANTEED_NO_EVICT." },
  }),
  ...inGroup("Output", {
    "require-dialect": {
      ...onlyOn,
      about: "Exit with code 2 if only general laws could be judged.",
    },
    only: { ...lawIds, default: "all", about: "Check only these laws." },
    all: { ...onlyOn, about: "List all laws, not only violated ones." },
    quiet: { ...onlyOn, about: "Print only violations and pages that could not be checked." },
    json: { ...file, about: "Write the report as JSON to this file." },
    junit: { ...file, about: "Write the report as JUnit XML to this file, with a test case per law." },
  }),
} as const satisfies Record<string, OptionRow>;

export type CheckValues = ValuesOf<typeof checkOptions>;

export function checkHelp(): string {
  return [
    "understudy check URL-or-FILE... [options]",
    "",
    "Checks that metrics keep their laws. Each URL is a server (/metrics unless it has a path). All files together are",
    "successive scrapes of one more server; - is standard input. FILE@SECONDS sets the time of a scrape. Without it, the",
    "times are those of the files, or one second apart if these do not rise. docs/reference/laws.md lists the laws.",
    "",
    "Exit code: 0 no law of severity E is violated, 1 one is, 2 a page could not be checked (or --require-dialect failed).",
    "",
    optionsHelp(checkOptions),
  ].join("\n");
}
