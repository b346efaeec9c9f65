/** Which models does the server say it has? vLLM 0.33, `openai/models/serving.py`: a card per served name. */
import { randomHex } from "../../random.ts";

/** Body of `/v1/models`. `root`: the model path. `created` (Unix seconds) and the permission ids change with each call. */
export function modelList(names: readonly string[], root: string, maxModelLen: number, created: number): string {
  const cards = names.map((name) => {
    const permission = `{"id":"modelperm-${randomHex(8)}","object":"model_permission","created":${created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}`;
    return `{"id":${JSON.stringify(name)},"object":"model","created":${created},"owned_by":"vllm","root":${JSON.stringify(root)},"parent":null,"max_model_len":${maxModelLen},"permission":[${permission}]}`;
  });
  return `{"object":"list","data":[${cards}]}`;
}
