/** Implements `ModelInfer`: one request and one answer, like `infer_handler.cc` (2026). */

import type { CallHandler, GrpcCall } from "../../../wire/grpc/call.ts";
import type { GrpcMethod } from "../../../wire/grpc/server.ts";
import type { GrpcStatus } from "../../../wire/grpc/status.ts";
import type { InferAnswer, InferRequest } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { isDecoupled } from "../model-config/model-config.ts";
import { TritonError } from "../model-config/status.ts";
import { versionNumber } from "../models/version-number.ts";
import { caught, type Inference, type InferRead, sentOutputs, statusOf } from "./answers.ts";
import type { GrpcWish } from "./infer-request.ts";
import { ResponseWriter, responseHead } from "./infer-response.ts";
import { UNREADABLE } from "./reading.ts";

export const inferMethod = (inference: Inference): GrpcMethod => {
  const writer = new ResponseWriter();
  return (call) => new UnaryInfer(call, inference, writer);
};

/** Larger answers are not copied in one go, because the copy would block other requests. */
const LARGE_BYTES = 1_048_576;

class UnaryInfer implements CallHandler {
  #request: InferRequest | null = null;
  #asked = false;

  constructor(
    private readonly call: GrpcCall,
    private readonly inference: Inference,
    private readonly writer: ResponseWriter,
  ) {}

  message(bytes: Uint8Array): void | Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    const read = this.inference.read(bytes, this.call);
    if (read instanceof Promise) return read.then((one) => this.#begin(one));
    this.#begin(read);
  }

  halfClosed(): void {
    if (!this.#asked) this.call.end(UNREADABLE);
  }

  cancelled(): void {
    if (this.#request !== null) this.#request.cancelled = true;
  }

  #begin(read: InferRead | GrpcStatus): void {
    if ("code" in read) {
      this.call.end(read);
      return;
    }
    const failed = this.call.over ? null : caught(() => this.#submit(read));
    if (failed) this.call.end(statusOf(failed));
    if (this.#request === null) read.room.free();
  }

  #submit(read: InferRead): void {
    const { wish } = read;
    const version = versionNumber(read.version);
    const model = this.inference.around.server.find(read.model, version);
    if (isDecoupled(model.config))
      throw new TritonError("UNSUPPORTED", "ModelInfer RPC doesn't support models with decoupled transaction policy");
    if (wish instanceof TritonError) throw wish;
    this.#request = this.inference.begin(version, read, {
      respond: (answer) => {
        if (answer instanceof TritonError) this.call.end(statusOf(answer));
        else if (answer !== null && !this.call.over) this.#answer(answer, model, wish);
      },
    });
  }

  #answer(answer: InferAnswer, model: ModelVersion, wish: GrpcWish): void {
    const { name, version } = model;
    const outputs = sentOutputs(answer, wish, model);
    if (outputs instanceof TritonError) {
      this.call.end(statusOf(outputs));
      return;
    }
    const head = responseHead(name, `${version}`, wish.fields.id);
    const parts = { head, parameters: answer.parameters, final: null, outputs };
    if (outputs.some(({ data }) => data.length > LARGE_BYTES)) this.call.sendParts(this.writer.responseParts(parts));
    else {
      const length = this.writer.response(parts);
      this.call.send(this.writer.bytes, length);
    }
    this.call.end();
  }
}
