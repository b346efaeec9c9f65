/** Which limits does the core set that others must keep to? Read from its layout; no other file outside core/ and engine/ sees it. */
import { ADAPTERS, FED_MORE, SLOTS, STEP_TOKENS } from "../../assembly/layout.ts";

/** Requests that an engine can hold at once, waiting ones included. */
export const REQUESTS_MOST: number = SLOTS;

/** LoRA adapters have the numbers 1 to this; 0 is none. */
export const ADAPTERS_MOST: number = ADAPTERS - 1;

/** Ids of a script that one step may give, and the bit of an id that says: the id after it comes in the same step. */
export const STEP_IDS_MOST: number = STEP_TOKENS;
export const SAME_STEP: number = FED_MORE >>> 0;
