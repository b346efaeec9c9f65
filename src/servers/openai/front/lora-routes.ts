/** Serves POST `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` as in vLLM 0.33. */

import { atOnce } from "../../../base/pieces.ts";
import { routes } from "../../../wire/http/routes.ts";
import { readJson } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { optional, record, required } from "../../pydantic/structures.ts";
import { bool, FAIL, int, nullable, State, type Type, text } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";
import type { LoraAdapters } from "./adapters.ts";
import type { CheckedFields, RouteDeps } from "./checked.ts";
import type { Context } from "./http.ts";

const loadBody = record("LoadLoRAAdapterRequest", {
  lora_name: required(text),
  lora_path: required(text),
  load_inplace: optional(bool),
  is_3d_lora_weight: optional(bool),
});
const unloadBody = record("UnloadLoRAAdapterRequest", {
  lora_name: required(text),
  lora_int_id: optional(nullable(int())),
});

export function loraRoutes({ http, bodies }: RouteDeps, adapters: LoraAdapters) {
  const answer = async (
    context: Context,
    type: Type<CheckedFields>,
    act: (body: CheckedFields) => ErrorAnswer | string,
  ) => {
    const bytes = await bodies.read(context);
    if ("status" in bytes) return http.error(context, bytes);
    const read = atOnce(readJson(bytes, context.request.headers.get("content-type")));
    if ("error" in read) return http.error(context, read.error);
    const state = new State(true);
    const checked = type.check(read.value, state);
    state.prefix(0, "body");
    if (checked === FAIL) return http.error(context, validationErrors(state.errors!, state.count));
    const result = act(checked);
    return typeof result === "string" ? http.text(context, result) : http.error(context, result);
  };
  const load = (body: CheckedFields) =>
    adapters.load({
      name: body.get("lora_name") as string,
      path: body.get("lora_path") as string,
      inPlace: body.get("load_inplace") === true,
    });
  const unload = (body: CheckedFields) => adapters.unload(body.get("lora_name") as string);
  return routes({
    "POST /v1/load_lora_adapter": (context) => answer(context, loadBody, load),
    "POST /v1/unload_lora_adapter": (context) => answer(context, unloadBody, unload),
  });
}
