/** Writes the token IDs of a prompt, for `return_token_ids`. In parts, because there may be a hundred thousand. */
import type { TextParts } from "../../openai/request/logprobs.ts";

/** IDs in a part, which are written in some tenths of a millisecond. */
const IDS_OF_A_PART = 4096;
/** IDs that are written in the time of one candidate of log probabilities. */
const IDS_OF_A_CANDIDATE = 16;

/** Returns the cost of writing the IDs, in candidates of log probabilities, the unit for long texts. */
export const weightOfIds = (ids: Uint32Array): number => Math.ceil(ids.length / IDS_OF_A_CANDIDATE);

/** Yields the JSON of the list. */
export function* idParts(ids: Uint32Array): TextParts {
  yield "[";
  for (let from = 0; from < ids.length; from += IDS_OF_A_PART) {
    const part = ids.subarray(from, from + IDS_OF_A_PART);
    yield `${from > 0 ? "," : ""}${JSON.stringify(listOf(part)).slice(1, -1)}`;
  }
  yield "]";
}

/** Copies the IDs to a list. `[...ids]` takes ten times as long until the runtime has compiled it. */
function listOf(ids: Uint32Array): number[] {
  const list = new Array<number>(ids.length);
  for (let i = 0; i < ids.length; i++) list[i] = ids[i]!;
  return list;
}
