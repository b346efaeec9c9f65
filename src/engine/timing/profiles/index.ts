/**
 * The list of presets. It leaves out simulators without steps or without measurements (BLIS coefficients, the Dynamo
 * mocker's polynomial, llm-d-inference-sim's profiles).
 */
import type { Profile } from "../profile.ts";
import gptOss from "./gpt-oss.json";
import llama8b from "./llama-3-1-8b.json";
import llama70b from "./llama-3-1-70b.json";
import { type PresetFigures, preset } from "./measured.ts";
import qwen3 from "./qwen3.json";

const rows = [...gptOss, ...llama70b, ...llama8b, ...qwen3] as unknown as readonly PresetFigures[];
export const profiles: readonly Profile[] = rows.map(preset);
