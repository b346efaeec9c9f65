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
  row,
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
    every: row("Time between two scrapes of a watch.", { ...duration, default: "1s" }),
    for: row("Time to watch.", { ...duration, default: "one scrape" }),
    timeout: row("Maximum time of one scrape.", { ...duration, default: "10s" }),
    "max-mb": row("Maximum size of a page in MiB; larger pages are not read.", {
      ...number(0, 256, "min"),
      default: "16",
    }),
    openmetrics: row("Request OpenMetrics in place of text format 0.0.4.", onlyOn),
    triton: row(
      "Also compare with /v2/models/stats of this server (law N11).",
      freeText("URL", "the address of Triton's HTTP service"),
    ),
  }),
  ...inGroup("What you know", {
    rest: row("Declare that no request ran at the last scrape. Without it, two idle scrapes must show that.", onlyOn),
    clean: row(
      "Declare that since the server's start no client disconnected and no request failed. Metrics do not show that.",
      onlyOn,
    ),
    "engine-version": row(
      "Versions of vLLM (V0, 0.10.2), TensorRT-LLM (1.1) or Triton (23.10). Laws of other versions are left out.",
      { ...engineVersions, default: "from the page" },
    ),
    names: row(
      "File that maps metric families of your own engine to those of a dialect. The dialect's laws then apply.",
      freeText("FILE", "a path of a JSON file"),
    ),
    "rest-gauges": row("More gauges of running work, by their names on the page. They must be 0 at rest (law G19).", {
      ...names,
      default: "those of the dialect",
    }),
  }),
  ...inGroup("Flags of the server", {
    "max-num-seqs": row("Maximum sequences in a step.", { ...integer(1), default: "unknown" }),
    "max-model-len": row("Maximum tokens of prompt plus answer.", { ...integer(1), default: "unknown" }),
    "block-size": row("Tokens per KV block.", { ...integer(1), default: "from cache_config_info" }),
    "num-gpu-blocks": row("KV blocks of one engine, including the null block.", {
      ...integer(2),
      default: "from cache_config_info",
    }),
    "enable-prefix-caching": row("Whether prefixes are cached.", { ...toggle, default: "from cache_config_info" }),
    "num-speculative-tokens": row("Draft tokens per step.", { ...integer(0), default: "0" }),
    "max-loras": row("Maximum different LoRA adapters in a batch.", { ...integer(1), default: "from the labels" }),
    "api-server-count": row(
      "Processes behind one page. If above 1, families may differ by a step; larger differences are warnings.",
      { ...integer(1), default: "1" },
    ),
    "min-step-ms": row("Shortest step in milliseconds.", { ...number(0, 1e6, "min"), default: "unknown" }),
    decoupled: row("Decoupled Triton models, which may send several responses per request.", names),
    ensembles: row("Triton models that are ensembles.", { ...names, default: "from the page" }),
    "batch-of-one": row("Declare that all requests to Triton have a batch size of 1.", onlyOn),
    "no-evict": row("Declare that TensorRT-LLM runs with GUARANTEED_NO_EVICT.", onlyOn),
  }),
  ...inGroup("Output", {
    "require-dialect": row("Exit with code 2 if only general laws could be judged.", onlyOn),
    only: row("Check only these laws.", { ...lawIds, default: "all" }),
    all: row("List all laws, not only violated ones.", onlyOn),
    quiet: row("Print only violations and pages that could not be checked.", onlyOn),
    json: row("Write the report as JSON to this file.", file),
    junit: row("Write the report as JUnit XML to this file, with a test case per law.", file),
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
