/** The options of `understudy kv-check`. An option that states a flag of the engine has the name of that flag. */

import { HASH_ALGORITHMS } from "../../kv-events/hash-algorithms.ts";
import { KV_LAWS } from "../../tools/kv-check/laws.ts";
import { isKvEndpoint } from "../../tools/kv-check/watch.ts";
import {
  choice,
  commaList,
  freeText,
  inGroup,
  integer,
  type OptionRow,
  one,
  onlyOn,
  row,
  seconds,
} from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const duration = seconds(0.01, 86_400, "a duration from 10ms to 24h, as in 500ms, 1s or 2m");
const file = freeText("FILE", "a path to write");
const lawIds = commaList("ID,…", "ids of laws with commas between them, as in K04,K13", (id) =>
  Object.hasOwn(KV_LAWS, id),
);

export const kvCheckOptions = {
  ...inGroup("Watch", {
    for: row("Time to check after the publisher has joined.", { ...duration, default: "until Ctrl-C" }),
    batches: row("End after this number of published batches.", { ...integer(1), default: "any number" }),
    timeout: row("Longest wait for a publisher, or for a metrics page.", { ...duration, default: "10s" }),
    topic: row("Beginning of the topics to check.", { ...freeText("TEXT", "a text"), default: "all" }),
    replay: row(
      "Replay sockets of the publishers, in their order. Then missing batches are asked for.",
      commaList("ENDPOINT,…", "tcp://HOST:PORT per publisher, with commas between them", isKvEndpoint),
    ),
    metrics: row(
      "Metrics page of the engine, read at the beginning and at the end (laws K18, K21 and K22).",
      one("URL", "the address of a metrics page", (text) =>
        /^https?:\/\//.test(text) && URL.canParse(text) ? text : undefined,
      ),
    ),
  }),
  ...inGroup("What you know", {
    "from-start": row(
      "Declare that the engine publishes nothing before this check has joined, so that the first sequence must be 0.",
      onlyOn,
    ),
    clean: row("Declare that no request is aborted or fails meanwhile. Metrics do not show that (law K22).", onlyOn),
    late: row("Delay from which on a batch counts as late (law K12).", { ...seconds(0, 86_400), default: "1s" }),
  }),
  ...inGroup("Flags of the engine", {
    "prefix-caching-hash-algo": row("Algorithm of the hashes.", {
      ...choice(...HASH_ALGORITHMS),
      default: "found out",
    }),
    "hash-seed": row("Value of PYTHONHASHSEED of the engine.", {
      ...freeText("TEXT", "a text"),
      default: "found out, if it is vLLM's, 0 or 42",
    }),
    "num-gpu-blocks": row("KV blocks of the engine, including the null block (law K18).", {
      ...integer(2),
      default: "from the metrics page",
    }),
    "lora-paths": row(
      "Paths of LoRA adapters, because hashes cover them.",
      commaList("NAME=PATH,…", "names and paths of adapters, as in a=/adapters/a", (text) => /^[^=]+=./.test(text)),
    ),
  }),
  ...inGroup("Output", {
    only: row("Check only these laws.", { ...lawIds, default: "all" }),
    all: row("List all laws, not only violated ones.", onlyOn),
    quiet: row("Print only violations and publishers that could not be checked.", onlyOn),
    json: row("Write the report as JSON to this file.", file),
    junit: row("Write the report as JUnit XML to this file, with a test case per law.", file),
  }),
} as const satisfies Record<string, OptionRow>;

export type KvCheckValues = ValuesOf<typeof kvCheckOptions>;

export function kvCheckHelp(): string {
  return [
    "understudy kv-check ENDPOINT... [options]",
    "",
    "Subscribes to the KV events of engines, ours or real ones, and checks that they keep the laws of docs/how-to/kv-check.md.",
    "An endpoint is the address of a PUB socket, such as tcp://127.0.0.1:5557 or ipc:///run/kv. With a host * kv-check binds the",
    "address and waits for engines that connect to it. Several endpoints are several publishers, for example ranks.",
    "",
    "Exit code: 0 no law of severity E is violated, 1 one is, 2 a publisher could not be checked.",
    "",
    optionsHelp(kvCheckOptions),
  ].join("\n");
}
