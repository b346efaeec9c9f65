/** Returns the tables of docs/reference/laws.md: one table of laws per dialect of metrics. */

import { holdsFor } from "../../src/tools/check/laws/holds.ts";
import { laws } from "../../src/tools/check/laws/index.ts";
import type { Law } from "../../src/tools/check/pages/law.ts";
import { cellText, markdownTable } from "./markdown.ts";

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

const HEADING = ["", "Law", "Needs", "Tolerance", "", "Versions", "Known bugs that break it"];

export function lawsMarkdown(): string {
  const tables = Array.from(
    Map.groupBy(laws, ({ of }) => of),
    ([of, rows]) => {
      const lines = rows.map((law) => {
        const { id, sentence, needs, tolerance, severity, looksLike } = law;
        const cells = [id, sentence, needs.join(", "), tolerance, severity, holdsFor(law)?.join(", ") ?? "", looksLike];
        return cells.map(cellText);
      });
      return `### ${TITLES[of]}\n\n${markdownTable([HEADING, ...lines])}`;
    },
  );
  return tables.join("\n\n");
}
