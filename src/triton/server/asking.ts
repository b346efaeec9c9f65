/** How does a model ask another one? As any client does; its responses come one by one. */
import type { ModelResponse, StreamFor } from "../../repository/behaviours/behaviour.ts";
import { TritonError } from "../../repository/config/status.ts";
import type { Tensor } from "../../repository/tensors/datatypes.ts";
import type { InferReceiver, InferRequest, RequestFields } from "./request.ts";

/** Throws a `TritonError` where the request is refused. */
type Infer = (name: string, version: number, fields: RequestFields, receiver: InferReceiver) => InferRequest;

/** Whoever stops reading cancels it, as `asking` does. */
export async function* askModel(
  infer: Infer,
  name: string,
  inputs: readonly Tensor[],
  asking?: StreamFor,
): AsyncGenerator<ModelResponse, void> {
  const fields = { id: asking?.id ?? "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const come: ModelResponse[] = [];
  let ended = false;
  let wake = () => {};
  let request: InferRequest | null = null;
  try {
    request = infer(name, -1, fields, {
      respond(answer, final) {
        if (answer instanceof TritonError) come.push({ error: { code: answer.code, message: answer.message } });
        else if (answer !== null) come.push({ outputs: answer.outputs });
        ended = final;
        wake();
      },
    });
    asking?.whenCancelled(() => {
      request!.cancelled = true;
    });
    for (;;) {
      while (come.length > 0) yield come.shift()!;
      if (ended) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } catch (error) {
    if (!(error instanceof TritonError)) throw error;
    yield { error: { code: error.code, message: error.message } };
  } finally {
    if (request !== null && !ended) request.cancelled = true;
  }
}
