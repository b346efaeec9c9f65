/**
 * Validates the control inputs of a sequence batcher, in Triton's order and with its messages. Source: `model_config_utils.cc`
 * (2026).
 */
import { ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import type { SequenceBatching } from "./model-config.ts";

const FLAGS = ["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY"];
const ID = "CONTROL_SEQUENCE_CORRID";
const LISTS = ["int32_false_true", "fp32_false_true", "bool_false_true"] as const;
const ID_TYPES = ["TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING"];

/** Returns the first error, or undefined if the controls are valid. */
export function* wrongControls(
  { control_input: inputs = [] }: SequenceBatching,
  model: string,
): Pieces<string | undefined> {
  for (const kind of [...FLAGS, ID]) {
    const seen = new Set<string>();
    let found = false;
    for (const { name = "", control: controls = [] } of inputs) {
      if (name === "") return `sequence batching control tensor must have a name for ${model}`;
      if (seen.has(name))
        return `sequence batching control tensor '${name}' is specified for multiple control kinds for ${model}`;
      seen.add(name);
      if (seen.size % ITEMS_OF_A_PIECE === 0) yield;
      // An unset kind means the first kind of the enumeration.
      for (const control of controls.filter((candidate) => (candidate.kind ?? FLAGS[0]) === kind)) {
        if (found) return `sequence batching specifies multiple ${kind} tensors for ${model}`;
        found = true;
        const lists = LISTS.filter((list) => (control[list] ?? []).length > 0);
        const wrong = kind === ID ? wrongId(lists, control.data_type, model) : wrongFlag(lists, control);
        if (wrong !== undefined) return kind === ID ? wrong : `${wrong} for ${kind} for ${model}`;
      }
    }
  }
  return undefined;
}

type List = (typeof LISTS)[number];

function wrongFlag(lists: readonly List[], control: { readonly [K in List]?: readonly unknown[] }) {
  const [list, other] = lists;
  if (list === undefined)
    return "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'";
  if (other !== undefined)
    return "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true'";
  return control[list]!.length !== 2 ? `sequence batching control '${list}' must have exactly 2 entries` : undefined;
}

function wrongId(lists: readonly List[], type: string | undefined, model: string): string | undefined {
  if (lists.length > 0)
    return `sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${ID} for ${model}`;
  if (ID_TYPES.includes(type ?? "")) return undefined;
  return `unexpected data type for control ${ID} for ${model}. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING`;
}
