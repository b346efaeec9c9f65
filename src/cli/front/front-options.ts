/** Defines the options of `understudy front` in one table. The options of `serve` are those of the engine. */
import { freeText, inGroup, onlyOn, seconds } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

export const READY_TIMEOUT_S = 600;

export const frontOptions = inGroup("", {
  "ready-timeout": {
    ...seconds(0.1, 86_400, "a duration up to 24h, as in 30s or 2m"),
    default: "10m",
    about: "Longest time until the front end is ready. It is then ended, and the exit code is 1.",
  },
  "free-port": {
    ...onlyOn,
    default: "off",
    about:
      "Add --host 127.0.0.1 and a free --port to COMMAND if they are missing, for tests. --ready-file has the URL.",
  },
  "ready-file": {
    ...freeText("FILE", "the path of a file"),
    default: "none",
    about: "Write a JSON file with both URLs and the pid once the front end accepts requests.",
  },
  "exit-with-parent": { ...onlyOn, default: "off", about: "End both when the parent process exits, for any reason." },
});

export type FrontValues = ValuesOf<typeof frontOptions>;

export const frontHelp = (): string => `understudy front [options] -- COMMAND

Starts a front end of vLLM that you have, such as vllm-rs or vllm serve, with an engine of Understudy behind it. Waits until it
is ready, shows its output, and ends both together. Example:

  understudy front --timing constant:ttft=50ms,itl=10ms -- vllm-rs serve MODEL --port 8000

These flags are added to COMMAND if they are missing: --data-parallel-size-local 0, --data-parallel-address, and
--data-parallel-rpc-port with a free port. If MODEL is a folder, the engine reads its tokenizer. All options of understudy serve
are accepted for the engine; its metrics have a free port unless you give --port.

${optionsHelp(frontOptions)}

Exit code: that of the front end; 1 if it was not ready in time or the engine died, 2 for wrong usage.`;
