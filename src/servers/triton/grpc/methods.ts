/** Lists the methods of the gRPC port by path: those of `inference.GRPCInferenceService` and `grpc.health.v1.Health`. */

import type { Clock } from "../../../base/clock.ts";
import { andThen } from "../../../base/maybe-promise.ts";
import { inTurns } from "../../../base/pieces.ts";
import type { CallHandler, GrpcCall } from "../../../wire/grpc/call.ts";
import { encodingOf } from "../../../wire/grpc/compression.ts";
import { MESSAGE_HEAD_BYTES } from "../../../wire/grpc/incoming.ts";
import type { GrpcMethod } from "../../../wire/grpc/server.ts";
import type { GrpcStatus } from "../../../wire/grpc/status.ts";
import type { MessageRoom } from "../../../wire/protobuf/message-room.ts";
import type { ServerAround } from "../inference/around.ts";
import { TritonError } from "../model-config/status.ts";
import { Inference, statusOf } from "./answers.ts";
import { CONTROL, type ControlMethod, type ControlRequest } from "./control.ts";
import { disturbable } from "./disturbed.ts";
import { inferMethod } from "./infer.ts";
import { type MessageJson, messageParts } from "./message-parts.ts";
import { readMessage, readWith, roomOf, UNREADABLE } from "./reading.ts";
import { streamInferMethod } from "./stream-infer.ts";

/** Prefix of the metadata that open a restricted protocol. */
const RESTRICTED_PREFIX = "triton-grpc-protocol-";
/** Microseconds between checks for a call of `Watch`. */
const WATCH_US = 1_000_000;

export function tritonMethods(around: ServerAround, clock: Pick<Clock, "now" | "at">): ReadonlyMap<string, GrpcMethod> {
  const methods = new Map<string, GrpcMethod>();
  const add = (path: string, protocol: string, method: GrpcMethod) =>
    methods.set(path, restricted(around, protocol, method));
  const service = "/inference.GRPCInferenceService/";
  const inference = new Inference(around);
  for (const [name, method] of Object.entries(CONTROL))
    add(service + name, method.protocol, controlMethod(name, method, around));
  const infers = (name: string, method: GrpcMethod) =>
    add(service + name, "inference", packed(around, disturbable(around, clock, method)));
  infers("ModelInfer", inferMethod(inference));
  infers("ModelStreamInfer", streamInferMethod(inference));
  const state = () => health(around.server.ready);
  const probe = (name: string, answer: (call: GrpcCall) => void) =>
    add(`/grpc.health.v1.Health/${name}`, "health", (call) =>
      onceRead(call, HEALTH_REQUEST, around, (_, room) => {
        room.free();
        answer(call);
      }),
    );
  probe("Check", (call) => answered(call, state()));
  if (around.server.facts.watchesHealth) probe("Watch", (call) => watch(call, around, clock));
  return methods;
}

function restricted({ config }: ServerAround, protocol: string, method: GrpcMethod): GrpcMethod {
  const own = config.overGrpc.restricted.find(({ apis }) => apis.includes(protocol));
  if (own === undefined) return method;
  const header = `${RESTRICTED_PREFIX}${own.header}`;
  const message = `This protocol is restricted, expecting header '${header}'`;
  return (call) => {
    if (call.metadata(header.toLowerCase()) === own.value) return method(call);
    call.end({ code: "UNAVAILABLE", message });
    return DEAF;
  };
}

const DEAF: CallHandler = { message() {}, halfClosed() {}, cancelled() {} };

/** Compresses answers as `--grpc-infer-response-compression-level` and the client allow. */
const packed =
  ({ config }: ServerAround, method: GrpcMethod): GrpcMethod =>
  (call) => {
    call.encoding = encodingOf(config.overGrpc.compression, call.metadata("grpc-accept-encoding") ?? "");
    return method(call);
  };

/**
 * Parses the first message of a call and answers it, or ends the call with an error if the message is refused. Ignores later
 * messages. While `answer` is pending, no message is read.
 */
function onceRead(
  call: GrpcCall,
  type: string,
  around: ServerAround,
  answer: (message: object, room: MessageRoom) => void | Promise<void>,
): CallHandler {
  let asked = false;
  return {
    message(bytes) {
      if (asked) return;
      asked = true;
      const room = roomOf(around);
      const take = (read: object): void | Promise<void> => {
        if ("code" in read) call.end(read as GrpcStatus);
        else if (call.over) room.free();
        else return answer(read, room);
      };
      return andThen(readWith(readMessage(type, bytes, room), bytes, room, around), take);
    },
    halfClosed() {
      if (!asked) call.end(UNREADABLE);
    },
    cancelled() {},
  };
}

function answered(call: GrpcCall, message: Uint8Array): void {
  call.send(Buffer.concat([Buffer.alloc(MESSAGE_HEAD_BYTES), message]));
  call.end();
}

function controlMethod(name: string, { answer }: ControlMethod, around: ServerAround): GrpcMethod {
  return (call) =>
    onceRead(call, `${name}Request`, around, async (request, room) => {
      try {
        const json = (await answer(request as ControlRequest, around)) as MessageJson;
        call.sendParts(await inTurns(messageParts(`${name}Response`, json), around.turns));
        call.end();
      } catch (error) {
        if (error instanceof TritonError) call.end(statusOf(error));
        else call.fail(error);
      } finally {
        room.free();
      }
    });
}

/** A message with one string field, like `HealthCheckRequest`. The service name in it has no effect. */
const HEALTH_REQUEST = "SystemSharedMemoryStatusRequest";

/** Encodes a `HealthCheckResponse`: SERVING or NOT_SERVING. */
const health = (ready: boolean): Uint8Array => Uint8Array.of(8, ready ? 1 : 2);

/** Sends the health now, and again whenever it changes. */
function watch(call: GrpcCall, { server }: ServerAround, clock: Pick<Clock, "now" | "at">): void {
  let told: boolean | null = null;
  const look = () => {
    if (call.over) return;
    const { ready } = server;
    if (ready !== told) call.send(Buffer.concat([Buffer.alloc(MESSAGE_HEAD_BYTES), health(ready)]));
    told = ready;
    clock.at(clock.now() + WATCH_US, look);
  };
  look();
}
