/**
 * How does a model ask another? As Python models do (BLS): what refuses the question is told as `request_executor.cc` of the
 * Python backend tells it, what the other model answers is passed on as it is, response by response.
 */
import type { ModelResponse, StreamRequest } from "../behaviours/behaviour.ts";
import { TritonError } from "../model-config/status.ts";
import type { VersionNumber } from "../models/table.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import type { InferReceiver, InferRequest, RequestFields } from "./request.ts";

interface Asked {
  /** Throws a `TritonError` where the request is refused. */
  infer(name: string, version: VersionNumber, fields: RequestFields, receiver: InferReceiver): InferRequest;
  isReady(name: string, version: VersionNumber): boolean;
}

/** Whoever stops reading cancels it, as `asking` does. */
export async function* askModel(
  server: Asked,
  name: string,
  inputs: readonly Tensor[],
  asking?: StreamRequest,
): AsyncGenerator<ModelResponse, void> {
  const fields = { id: asking?.id ?? "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const come: ModelResponse[] = [];
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
        if (answer instanceof TritonError) come.push({ error: { code: answer.code, message: answer.message } });
        else if (answer !== null) come.push({ outputs: answer.outputs });
        ended = final;
        wake();
      },
    });
    asking?.whenCancelled((broken) => request!.leave(broken));
    for (;;) {
      while (come.length > 0) yield come.shift()!;
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
