/** Returns the tables of docs/reference/laws.md: one table of laws per dialect of metrics. */

import { holdsFor } from "../../src/tools/check/laws/holds.ts";
import { laws } from "../../src/tools/check/laws/index.ts";
import type { Law } from "../../src/tools/check/pages/law.ts";

const TITLES: Readonly<Record<Law["of"], string>> = {
  any: "Any exposition",
  vllm: "vLLM (`vllm:` left out)",
  trtllm: "TensorRT-LLM on Triton (`nv_trt_llm_` left out)",
  "trtllm-serve": "trtllm-serve (`trtllm_` left out)",
  triton: "Triton, per model and version (`nv_` left out)",
  "dynamo-frontend": "Dynamo's frontend, per model (`dynamo_frontend_` left out)",
  "dynamo-worker": "Dynamo's worker",
  dcgm: "DCGM",
  understudy: "Understudy",
  sglang: "SGLang",
  "vllm-router": "The router of vLLM's production stack",
  cross: "Several dialects of one engine, and the driver's books",
};

export function lawsMarkdown(): string {
  return [...Map.groupBy(laws, ({ of }) => of)]
    .map(([of, rows]) => {
      const lines = rows.map((law) => {
        const { id, sentence, needs, tolerance, severity, looksLike } = law;
        return row([id, sentence, needs.join(", "), tolerance, severity, holdsFor(law)?.join(", ") ?? "", looksLike]);
      });
      return [
        `### ${TITLES[of]}`,
        "",
        row(["", "Law", "Needs", "Tolerance", "", "Versions", "Known bugs that break it"]),
        HEAD,
        ...lines,
      ].join("\n");
    })
    .join("\n\n");
}

const HEAD = "|---|---|---|---|---|---|---|";

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("<", "&lt;")).join(" | ")} |`;
}
