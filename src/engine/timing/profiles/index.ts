/**
 * The list of presets. It leaves out simulators without steps or without measurements (BLIS coefficients, the Dynamo
 * mocker's polynomial, llm-d-inference-sim's profiles).
 */
import type { Profile } from "../profile.ts";
import { gptOss } from "./gpt-oss.ts";
import { llama8b } from "./llama-3-1-8b.ts";
import { llama70b } from "./llama-3-1-70b.ts";
import { qwen3 } from "./qwen3.ts";

export const profiles: readonly Profile[] = [...gptOss, ...llama70b, ...llama8b, ...qwen3];
