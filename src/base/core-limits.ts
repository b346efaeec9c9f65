/** Limits of the core that other rooms must respect. Only this file and the engine read the core's layout. */
import { ADAPTERS, FED_MORE, SLOTS, STEP_TOKENS } from "../../assembly/layout.ts";

/** Maximum requests in an engine at once, including waiting ones. */
export const REQUESTS_MOST: number = SLOTS;

/** Highest number of a LoRA adapter, from 1; 0: no adapter. */
export const ADAPTERS_MOST: number = ADAPTERS - 1;

/** Most ids of a script in one step. SAME_STEP: the bit of an id that puts the next id into the same step. */
export const STEP_IDS_MOST: number = STEP_TOKENS;
export const SAME_STEP: number = FED_MORE >>> 0;
