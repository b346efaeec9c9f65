/** How may plain tokens of streams leave? All of a step by one native call, or each by a call of its own. */

export const STREAM_WRITES = ["auto", "batched", "single"] as const;
/** `auto`: batched where that can be done. */
export type StreamWritesOrder = (typeof STREAM_WRITES)[number];
export type StreamWritesMode = Exclude<StreamWritesOrder, "auto">;
