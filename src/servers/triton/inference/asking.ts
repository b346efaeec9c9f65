/**
 * Sends a request from one model to another, as Python models do with BLS. A refused request gives the error text of the Python
 * backend's `request_executor.cc`. Responses of the other model are passed on unchanged.
 */
import type { ModelResponse, StreamRequest } from "../behaviours/behaviour.ts";
import { TritonError } from "../model-config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import type { InferRequest } from "./request.ts";
import type { TritonServer } from "./server.ts";

type InferenceTarget = Pick<TritonServer, "infer" | "isReady">;

/** Yields the responses. The request is cancelled if the caller stops reading or if `asking` is cancelled. */
export async function* askModel(
  server: InferenceTarget,
  name: string,
  inputs: readonly Tensor[],
  asking?: StreamRequest,
): AsyncGenerator<ModelResponse, void> {
  const fields = { id: asking?.id ?? "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const responses: ModelResponse[] = [];
  let ended = false;
  let wake = () => {};
  let request: InferRequest | null = null;
  const refused = (why: string): ModelResponse => ({
    error: { message: `Model ${name} - Error when running inference: ${why}` },
  });
  if (!server.isReady(name, -1)) {
    yield refused(`Failed for execute the inference request. Model '${name}' is not ready.`);
    return;
  }
  try {
    request = server.infer(name, -1, fields, {
      respond(answer, final) {
        if (answer instanceof TritonError) responses.push({ error: { code: answer.code, message: answer.message } });
        else if (answer !== null) responses.push({ outputs: answer.outputs });
        ended = final;
        wake();
      },
    });
    asking?.whenCancelled((broken) => request!.leave(broken));
    for (;;) {
      while (responses.length > 0) yield responses.shift()!;
      if (ended) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } catch (error) {
    if (!(error instanceof TritonError)) throw error;
    yield refused(error.message);
  } finally {
    if (request !== null && !ended) request.cancelled = true;
  }
}
