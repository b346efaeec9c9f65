/** Lists the models of a server, and refuses requests for other ones. As in vLLM 0.33 (`openai/models/serving.py`). */

import type { Ids } from "../../../base/random.ts";
import type { LoraModule } from "../../../kernel/kernel-config.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { unknownModel } from "../request/errors.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";
import type { Limits } from "../request/request.ts";

/** Throws `RefusedRequest` if the model is not served. Null and "" stand for the first served model. */
export function checkModel(model: string | null, limits: Limits): void {
  if (model === null || model === "" || limits.takesAnyModel) return;
  if (!limits.servedModelNames.includes(model) && !limits.loraNames.includes(model))
    refuse(unknownModel(model, limits));
}

/**
 * Returns the body of `/v1/models`: an entry per served name, then one per adapter. `created`: Unix seconds of this call. The ids
 * of permissions are new for each call, too.
 */
export function modelList(
  { models: { servedModelNames, model }, engine }: OpenAiServerConfig,
  loraModules: readonly LoraModule[],
  created: number,
  newId: Ids,
): string {
  const card = (id: string, root: string, parent: string | null, maxModelLen: number | null) => {
    const permission = `{"id":"modelperm-${newId(8)}","object":"model_permission","created":${created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}`;
    const [idText, rootText, parentText] = [id, root, parent].map((text) => JSON.stringify(text));
    return `{"id":${idText},"object":"model","created":${created},"owned_by":"vllm","root":${rootText},"parent":${parentText},"max_model_len":${maxModelLen},"permission":[${permission}]}`;
  };
  const cards = [
    ...servedModelNames.map((id) => card(id, model, null, engine.maxModelLen)),
    ...loraModules.map(({ name, path, baseModelName }) =>
      card(name, path, baseModelName ?? servedModelNames[0]!, null),
    ),
  ];
  return `{"object":"list","data":[${cards}]}`;
}
