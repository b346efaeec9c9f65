/** How are LoRA adapters loaded and unloaded while the server runs? POST `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` of vLLM 0.33. */

import { atOnce } from "../../../base/pieces.ts";
import { routes } from "../../../wire/http/routes.ts";
import { readJson } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { optional, record, required } from "../../pydantic/structures.ts";
import { bool, FAIL, int, nullable, State, type Type, text } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";
import type { LoraAdapters } from "./adapters.ts";
import type { RouteDeps } from "./checked.ts";
import type { Context } from "./http.ts";

type Checked = ReadonlyMap<string, unknown>;

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
  const answer = async (context: Context, type: Type<Checked>, act: (body: Checked) => ErrorAnswer | string) => {
    const bytes = await bodies.read(context);
    if ("status" in bytes) return http.error(context, bytes);
    const read = atOnce(readJson(bytes, context.request.headers.get("content-type")));
    if ("error" in read) return http.error(context, read.error);
    const state = new State(true);
    const checked = type.check(read.value, state);
    state.prefix(0, "body");
    if (checked === FAIL) return http.error(context, validationErrors(state.errors!, state.count));
    const made = act(checked);
    return typeof made === "string" ? http.text(context, made) : http.error(context, made);
  };
  const load = (body: Checked) =>
    adapters.load({
      name: body.get("lora_name") as string,
      path: body.get("lora_path") as string,
      inPlace: body.get("load_inplace") === true,
    });
  const unload = (body: Checked) => adapters.unload(body.get("lora_name") as string);
  return routes({
    "POST /v1/load_lora_adapter": (context) => answer(context, loadBody, load),
    "POST /v1/unload_lora_adapter": (context) => answer(context, unloadBody, unload),
  });
}
