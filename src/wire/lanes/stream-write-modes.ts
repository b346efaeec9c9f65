/** Ways to send the plain tokens of streams: all tokens of a step with one native call, or each with a call of its own. */

export const STREAM_WRITES = ["auto", "batched", "single"] as const;
/** `auto` means batched if that is possible. */
export type StreamWritesOrder = (typeof STREAM_WRITES)[number];
export type StreamWritesMode = Exclude<StreamWritesOrder, "auto">;
