/** Makes the table of docs/reference/front-end-faults.md: each fault, what it does, and how `vllm-rs` reacts. */
import { FRONT_FAULT_NAMES, kindOf } from "../../src/servers/vllm-engine/faults/front-faults.ts";
import { markdownTable } from "./markdown.ts";
import { textsOf } from "./rows.ts";

const OCCASIONS = { output: "output of a request", step: "step's message", call: "call", always: "" } as const;

export function frontFaultsMarkdown(): string {
  const reactions = textsOf("front-end-faults.yaml");
  const rows = FRONT_FAULT_NAMES.map((name) => {
    const { at, does, stays } = kindOf(name);
    return [`\`${name}\``, OCCASIONS[at] + (stays ? ", and all later ones" : ""), does, reactions[name]!];
  });
  return markdownTable([["Fault", "At each", "The front end sees", "vllm-rs 0.33.0"], ...rows]);
}
