/** Which options of its engine does a Triton server take? Those of `serve` under the same names, in Triton's syntax. */
import type { OptionRow, ValueOf } from "./option.ts";
import { serveOptions } from "./serve-options.ts";
import { tritonBoolean } from "./triton-options.ts";
import { trtllmOptions } from "./trtllm-options.ts";

const NAMES = [
  "model",
  "timing",
  "tokenizer",
  "max-model-len",
  "max-num-seqs",
  "max-num-batched-tokens",
  "block-size",
  "num-gpu-blocks-override",
  "enable-prefix-caching",
  "output-tokens",
  "embedding-dimensions",
  "image-tokens",
  ...(Object.keys(trtllmOptions) as (keyof typeof trtllmOptions)[]),
] as const;

type Name = (typeof NAMES)[number];
type Rows = { readonly [K in Name]: OptionRow<ValueOf<(typeof serveOptions)[K]>> };

/** Switches take true or false there. */
export const tritonEngineOptions = Object.fromEntries(
  NAMES.map((name) => {
    const option: OptionRow = serveOptions[name];
    const reads = option.metavar === "" ? tritonBoolean : option;
    const { about, default: byDefault } = option;
    return [name, { ...reads, about, default: byDefault, group: "Engine of LLM models", ours: true }];
  }),
) as Rows;

export const isEngineOption = (name: string): name is Name => NAMES.some((one) => one === name);
