/** Defines the options of `understudy check` in one table. Flags of the checked server have that server's names. */

import { laws } from "../../tools/check/index.ts";
import { isVersion } from "../../tools/check/pages/versions.ts";
import {
  freeText,
  inGroup,
  integer,
  number,
  type Option,
  type OptionRow,
  one,
  onlyOn,
  seconds,
  toggle,
} from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const duration = seconds(0.01, 86_400, "a duration from 10ms to 24h, as in 500ms, 1s or 2m");

const names = one<readonly string[]>("NAME,…", "names with commas between them", (written) => {
  const all = written.split(",").map((name) => name.trim());
  return all.every(Boolean) ? all : undefined;
});

const lawIds: Option<readonly string[]> = {
  ...names,
  accepts: "ids of laws with commas between them, as in V15,G10",
  metavar: "ID,…",
  read: (texts) => {
    const ids = names.read(texts)?.map((id) => id.toUpperCase());
    return ids?.every((id) => laws.some((law) => law.id === id)) ? ids : undefined;
  },
};

const engineVersions: Option<readonly string[]> = {
  ...names,
  accepts: "versions of vLLM, TensorRT-LLM or Triton with commas between them, as in V0, 0.10.2, 1.1 or 23.10",
  metavar: "VERSION,…",
  read: (texts) => {
    const versions = names.read(texts);
    return versions?.every(isVersion) ? versions : undefined;
  },
};

const file = freeText("FILE", "a path to write");

export const checkOptions = {
  ...inGroup("Watch", {
    every: { ...duration, default: "1s", about: "Time between two scrapes of a watch." },
    for: { ...duration, default: "one scrape", about: "How long to watch." },
    timeout: { ...duration, default: "10s", about: "How long one scrape may take." },
    "max-mb": { ...number(0, 256, "min"), default: "16", about: "Largest page in MiB; more is not read." },
    openmetrics: { ...onlyOn, default: "false", about: "Ask for OpenMetrics in place of text 0.0.4." },
    triton: {
      ...freeText("URL", "the address of Triton's HTTP service"),
      default: "none",
      about: "Compare with /v2/models/stats there (law N11).",
    },
  }),
  ...inGroup("What you know", {
    rest: {
      ...onlyOn,
      default: "false",
      about: "Nothing was under way at the last scrape. Otherwise two idle scrapes must show it.",
    },
    clean: {
      ...onlyOn,
      default: "false",
      about: "Since the server's start no client left and no request failed. No metric shows that.",
    },
    "engine-version": {
      ...engineVersions,
      default: "told from the page",
      about:
        "Versions of vLLM (V0, 0.10.2), TensorRT-LLM (1.1) or Triton (23.10). Laws of other versions are left out.",
    },
    names: {
      ...freeText("FILE", "a path of a JSON file"),
      default: "none",
      about: "Which families of an engine of your own stand for which of a dialect, whose laws then apply.",
    },
    "rest-gauges": {
      ...names,
      default: "those of the dialect",
      about: "More gauges of what is under way, by their names on the page: 0 at rest (law G19).",
    },
  }),
  ...inGroup("Flags of the server", {
    "max-num-seqs": { ...integer(1), default: "unknown", about: "Most sequences in a step." },
    "max-model-len": { ...integer(1), default: "unknown", about: "Longest prompt and answer." },
    "block-size": { ...integer(1), default: "from cache_config_info", about: "Tokens per KV block." },
    "num-gpu-blocks": {
      ...integer(2),
      default: "from cache_config_info",
      about: "KV blocks of one engine, the null block included.",
    },
    "enable-prefix-caching": { ...toggle, default: "from cache_config_info", about: "Whether prefixes are cached." },
    "num-speculative-tokens": { ...integer(0), default: "0", about: "Draft tokens per step." },
    "max-loras": { ...integer(1), default: "from the labels", about: "Adapters in a batch." },
    "api-server-count": {
      ...integer(1),
      default: "1",
      about: "Processes behind one page: families may then be a step apart, and more than that is a warning.",
    },
    "min-step-ms": { ...number(0, 1e6, "min"), default: "unknown", about: "Shortest step." },
    decoupled: { ...names, default: "none", about: "Triton models that may answer a request several times." },
    ensembles: { ...names, default: "told from the page", about: "Triton models that are ensembles." },
    "batch-of-one": { ...onlyOn, default: "false", about: "No request to Triton has a batch of more than one." },
    "no-evict": { ...onlyOn, default: "false", about: "TensorRT-LLM's GUARANTEED_NO_EVICT." },
  }),
  ...inGroup("Output", {
    "require-dialect": {
      ...onlyOn,
      default: "false",
      about: "Exit with code 2 if only general laws could be judged.",
    },
    only: { ...lawIds, default: "all", about: "Look at these laws." },
    all: { ...onlyOn, default: "false", about: "List each law, not the violated ones alone." },
    quiet: { ...onlyOn, default: "false", about: "Say what is violated or could not be looked at, and nothing else." },
    json: { ...file, default: "none", about: "The report as JSON." },
    junit: { ...file, default: "none", about: "The report as JUnit XML, a test case per law." },
  }),
} as const satisfies Record<string, OptionRow>;

export type CheckValues = ValuesOf<typeof checkOptions>;

export function checkHelp(): string {
  return [
    "understudy check URL-or-FILE... [options]",
    "",
    "Do anybody's metrics keep their laws? Each URL is a server (/metrics unless it has a path); the files together are",
    "successive scrapes of one more; - is standard input. FILE@SECONDS says when a file was taken; otherwise the times",
    "are those of the files, or a second apart where these do not rise. docs/check.md lists the laws.",
    "",
    "Exit code: 0 no law of severity E is violated, 1 one is, 2 it could not look (or --require-dialect found none).",
    "",
    optionsHelp(checkOptions),
  ].join("\n");
}
