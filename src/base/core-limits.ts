/**
 * Lists limits of the WebAssembly core that the rest of the program must respect. Only this file and `src/engine` read the
 * memory layout of the core.
 */
import { ADAPTERS, FED_MORE, SLOTS, STEP_TOKENS } from "../../assembly/layout.ts";

/** Most requests in an engine at once, including waiting requests. */
export const REQUESTS_MOST: number = SLOTS;

/** Highest number of a LoRA adapter. Numbers start at 1; 0 means no adapter. */
export const ADAPTERS_MOST: number = ADAPTERS - 1;

/**
 * Largest number of token ids per step in a script of outputs. SAME_STEP: the bit of an id that
 * puts the next id into the same step.
 */
export const STEP_IDS_MOST: number = STEP_TOKENS;
export const SAME_STEP: number = FED_MORE >>> 0;
