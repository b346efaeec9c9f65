/** What of a request takes long where it is large? Tools, names for the template, lists of ids, arguments of any shape: at once, or in pieces. */

import { atOnce, mapped, type Pieces } from "../../../base/pieces.ts";
import { idListPieces, idLists } from "../../openai/request/lists.ts";
import type { ChatRequest, Limits } from "../../openai/request/request.ts";
import { toPlainPieces } from "../../pydantic/value.ts";
import { toolDict } from "./field-types.ts";
import type { ChatValues, CompletionValues } from "./fields.ts";
import { anyHolds, holdsHuge } from "./huge-ints.ts";

/** Made before the rest. */
export interface MadeBefore {
  readonly tools: ChatRequest["tools"];
  readonly names: ChatRequest["templateNames"];
  readonly long: LongParts;
}

export interface LongParts {
  readonly lists: ReturnType<typeof idLists>;
  readonly extraArgsTooLarge: boolean;
}

/** At once. */
export function madeNow(values: ChatValues, limits: Limits, exact: boolean): MadeBefore {
  const tools = values.tools?.map(toolDict) ?? null;
  const names = namesAnything(values) ? atOnce(templateNames(values)) : null;
  return { tools, names, long: longParts(values, limits, exact) };
}

export function longParts(values: ChatValues | CompletionValues, limits: Limits, exact: boolean): LongParts {
  return {
    lists: idLists(listsOf(values), limits.vocabularySize),
    extraArgsTooLarge:
      holdsHuge(values.vllm_xargs, exact) ||
      holdsHuge(values.kv_transfer_params, exact) ||
      holdsHuge(values.ec_transfer_params, exact),
  };
}

function listsOf(values: ChatValues | CompletionValues) {
  // BeamSearchParams has no such field: whatever it says, nobody looks at it.
  const bias = values.use_beam_search ? null : values.logit_bias;
  const { stop_token_ids: stop, allowed_token_ids: allowed, logprob_token_ids: logprobs } = values;
  return { bias, stop, allowed, logprobs };
}

/** In pieces. */
export function* madePieces(values: ChatValues, limits: Limits, exact: boolean): Pieces<MadeBefore> {
  const tools = values.tools && (yield* mapped(values.tools, toolDict));
  const names = yield* templateNames(values);
  const lists = yield* idListPieces(listsOf(values), limits.vocabularySize);
  const extra = [values.vllm_xargs, values.kv_transfer_params, values.ec_transfer_params];
  return { tools, names, long: { lists, extraArgsTooLarge: yield* anyHolds(extra, exact) } };
}

const namesAnything = ({ chat_template_kwargs, documents, reasoning_effort }: ChatValues) =>
  chat_template_kwargs !== null || documents !== null || reasoning_effort !== null;

/** As `build_chat_params` puts them together; asking for reasoning asks for thinking too. In pieces. */
function* templateNames(values: ChatValues): Pieces<Record<string, unknown> | null> {
  const { chat_template_kwargs: given, documents, reasoning_effort: effort } = values;
  if (!namesAnything(values)) return null;
  const names = given === null ? {} : ((yield* toPlainPieces(given)) as Record<string, unknown>);
  const others = {
    ...(effort === null ? {} : { enable_thinking: effort !== "none", reasoning_effort: effort }),
    ...(documents === null ? {} : { documents: yield* mapped(documents, (one) => Object.fromEntries(one)) }),
  };
  // What the request names itself counts. Not copied: there may be a hundred thousand names.
  for (const [name, value] of Object.entries(others)) if (!Object.hasOwn(names, name)) names[name] = value;
  return names;
}
