/** Shared by unary and streamed inference: reads requests, hands them to the server, counts them, and prepares their outputs. */

import type { Pieces } from "../../../base/pieces.ts";
import { resultOrError } from "../../../base/result-or-error.ts";
import type { GrpcCall } from "../../../wire/grpc/call.ts";
import type { GrpcCode, GrpcStatus } from "../../../wire/grpc/status.ts";
import type { MessageRoom } from "../../../wire/protobuf/message-room.ts";
import type { ServerAround } from "../inference/around.ts";
import { type ForwardPattern, forwardPattern } from "../inference/forwarded.ts";
import type { InferAnswer, InferParameters, InferReceiver, InferRequest } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { maxBatchSize } from "../model-config/model-config.ts";
import { invalidArg, type StatusCode, TritonError } from "../model-config/status.ts";
import type { VersionNumber } from "../models/table.ts";
import { classified } from "../tensors/classified.ts";
import { type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { type GrpcWish, type InferMessage, readInfer, wishOf } from "./infer-request.ts";
import { readWith, roomOf } from "./reading.ts";

const CODES: Readonly<Record<StatusCode, GrpcCode>> = {
  UNKNOWN: "UNKNOWN",
  INTERNAL: "INTERNAL",
  NOT_FOUND: "NOT_FOUND",
  INVALID_ARG: "INVALID_ARGUMENT",
  UNAVAILABLE: "UNAVAILABLE",
  UNSUPPORTED: "UNIMPLEMENTED",
  ALREADY_EXISTS: "ALREADY_EXISTS",
  CANCELLED: "CANCELLED",
};

export const statusOf = ({ code, message }: TritonError): GrpcStatus => ({ code: CODES[code] ?? "UNKNOWN", message });

/** Returns the result of `run`, or the `TritonError` that `run` throws. Throws other errors. */
export const caught = <T>(run: () => T): T | TritonError => resultOrError(TritonError, run);

/** Largest message of gRPC in bytes. */
const MESSAGE_BYTES_MOST = 2 ** 31 - 1;

/**
 * Returns the outputs of an answer as the client wants them: as classes, in shared memory or unchanged. Returns an error if an
 * output cannot be sent so.
 */
export function sentOutputs(
  answer: InferAnswer,
  wish: Pick<GrpcWish, "outputs">,
  model: Pick<ModelVersion, "config" | "labels">,
): readonly Tensor[] | TritonError {
  let bytes = 0;
  for (const { data } of answer.outputs) bytes += data.length;
  if (bytes > MESSAGE_BYTES_MOST)
    return invalidArg(`Response has byte size ${bytes} which exceeds gRPC's byte size limit ${MESSAGE_BYTES_MOST}.`);
  return wish.outputs.size === 0 ? answer.outputs : caught(() => converted(answer, wish, model));
}

const converted = (
  { outputs }: InferAnswer,
  { outputs: wishes }: Pick<GrpcWish, "outputs">,
  { config, labels }: Pick<ModelVersion, "config" | "labels">,
): readonly Tensor[] =>
  outputs.map((output) => {
    const wish = wishes.get(output.name);
    if (wish === undefined) return output;
    if (wish.put === null) return classified(output, wish.classes, maxBatchSize(config) > 0, labels.get(output.name));
    wish.put(output.data);
    return { ...output, data: NOTHING };
  });
const NOTHING = new Uint8Array();

/** Most requests of all calls without a last response, including those whose clients have left. */
const UNFINISHED_MOST = 65_536;

/** A request that was read. Its room must be freed when the request is over. */
export interface InferRead {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  /** The request, or the error in it, which counts only if the model exists. */
  readonly wish: GrpcWish | TritonError;
  readonly room: MessageRoom;
}

/** Messages of at least this size are reported to the garbage collector on their own. Shorter ones count with the streams. */
const LARGE_BYTES = 65_536;

/** Memory of a parameter of a request, in bytes: its name, its value, and the pair of them. */
const PARAMETER_BYTES = 112;

/** Hands requests to the server and counts those that run. */
export class Inference {
  readonly #forwards: ForwardPattern | null;
  #unfinished = 0;

  constructor(readonly around: ServerAround) {
    this.#forwards = forwardPattern("grpc", around.config.overGrpc.forward, around.server.facts);
  }

  /** Reads the request of a call, or returns the status of its refusal. Reads a short request synchronously. */
  read(bytes: Uint8Array, call: GrpcCall): InferRead | GrpcStatus | Promise<InferRead | GrpcStatus> {
    const room = roomOf(this.around);
    return readWith(this.#reading(bytes, call, room), bytes, room, this.around);
  }

  *#reading(bytes: Uint8Array, call: GrpcCall, room: MessageRoom): Pieces<InferRead> {
    const message = yield* readInfer(bytes, room);
    // Any number of parameters is accepted, so they count; excess inputs are refused at once. The message itself soon becomes
    // garbage.
    room.objectsAre((message.parameters?.size ?? 0) * PARAMETER_BYTES);
    const wish = yield* this.#wish(message, call);
    const { model_name: model = "", model_version: version = "", id = "" } = message;
    return { model, version, id, wish, room };
  }

  *#wish(message: InferMessage, call: GrpcCall): Pieces<GrpcWish | TritonError> {
    try {
      return yield* wishOf(message, this.around.memory, this.#forwarded(call));
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      return error;
    }
  }

  /** Returns the metadata that become parameters. Throws a `TritonError` if a name is reserved. */
  #forwarded(call: GrpcCall): InferParameters {
    const forwards = this.#forwards;
    if (forwards === null) return [];
    const matching = call.allMetadata.filter(([name]) => forwards(name));
    return matching.map(([name, value]) => [toBytesText(name), toBytesText(value)] as const);
  }

  /** Starts a request. Throws a `TritonError` if it is refused. Frees the request's room at its end. */
  begin(version: VersionNumber, { model, wish, room }: InferRead, receiver: InferReceiver): InferRequest {
    if (wish instanceof TritonError) throw wish;
    if (this.#unfinished >= UNFINISHED_MOST)
      throw new TritonError("UNAVAILABLE", `more than ${UNFINISHED_MOST} requests are under way`);
    this.#unfinished++;
    try {
      return this.around.server.infer(model, version, wish.fields, {
        respond: (answer, final) => {
          if (final) {
            this.#unfinished--;
            const bytes = room.free();
            if (bytes >= LARGE_BYTES) this.around.turns.consumed(bytes);
          }
          receiver.respond(answer, final);
        },
        plainText: (output) => receiver.plainText?.(output) ?? null,
      });
    } catch (error) {
      this.#unfinished--;
      throw error;
    }
  }
}
