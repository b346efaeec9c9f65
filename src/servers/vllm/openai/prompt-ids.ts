/** How are a prompt's ids written, as a client sees them with `return_token_ids`? In parts: they may be a hundred thousand. */
import type { TextParts } from "../../openai/request/logprobs.ts";

/** Some tenths of a millisecond. */
const IDS_OF_A_PART = 4096;
/** So many ids take as long as a candidate of log probabilities. */
const IDS_OF_A_CANDIDATE = 16;

/** In candidates, as a body or an event counts what is long in it. */
export const weightOfIds = (ids: Uint32Array): number => Math.ceil(ids.length / IDS_OF_A_CANDIDATE);

/** JSON of the list. */
export function* idParts(ids: Uint32Array): TextParts {
  yield "[";
  for (let from = 0; from < ids.length; from += IDS_OF_A_PART) {
    const part = ids.subarray(from, from + IDS_OF_A_PART);
    yield `${from > 0 ? "," : ""}${JSON.stringify(listOf(part)).slice(1, -1)}`;
  }
  yield "]";
}

/** `[...ids]` takes ten times as long the first times. */
function listOf(ids: Uint32Array): number[] {
  const list = new Array<number>(ids.length);
  for (let i = 0; i < ids.length; i++) list[i] = ids[i]!;
  return list;
}
