/** Which methods has port 8001? Those of `inference.GRPCInferenceService` and `grpc.health.v1.Health`, by their paths. */
import { fromBinary, toJson } from "@bufbuild/protobuf";
import { type CallHandler, type GrpcCall, MESSAGE_HEAD_BYTES } from "../../grpc/call.ts";
import { encodingOf } from "../../grpc/compression.ts";
import type { GrpcMethod } from "../../grpc/server.ts";
import type { Clock } from "../../host/clock.ts";
import { inTurns } from "../../python/pieces.ts";
import { TritonError } from "../../repository/config/status.ts";
import type { ServerAround } from "../server/around.ts";
import { Inference, statusOf, UNREADABLE } from "./answers.ts";
import { CONTROL, type ControlMethod, type ControlRequest } from "./control.ts";
import { messageNamed } from "./descriptor.ts";
import { disturbable } from "./disturbed.ts";
import { inferMethod } from "./infer.ts";
import { takeFiles } from "./load-files.ts";
import { type MessageJson, messageParts } from "./message-parts.ts";
import { streamInferMethod } from "./stream-infer.ts";

/** Where the header stands that opens a restricted protocol. */
const RESTRICTED_PREFIX = "triton-grpc-protocol-";
/** How often somebody who watches is told of a change. */
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
      once(call, (bytes) => (isServiceName(bytes) ? answer(call) : call.end(UNREADABLE))),
    );
  probe("Check", (call) => answered(call, state()));
  if (around.server.facts.watchesHealth) probe("Watch", (call) => watch(call, around, clock));
  return methods;
}

function restricted({ config }: ServerAround, protocol: string, method: GrpcMethod): GrpcMethod {
  const own = config.restrictedGrpc.find(({ apis }) => apis.includes(protocol));
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

/** Answers are packed as `--grpc-infer-response-compression-level` and the client want it. */
const packed =
  ({ config }: ServerAround, method: GrpcMethod): GrpcMethod =>
  (call) => {
    call.encoding = encodingOf(config.grpcCompression, call.metadata("grpc-accept-encoding") ?? "");
    return method(call);
  };

/** One message, and the answer to it; whatever else comes is nobody's. */
function once(call: GrpcCall, answer: (bytes: Uint8Array) => void): CallHandler {
  let asked = false;
  return {
    message(bytes) {
      if (!asked) answer(bytes);
      asked = true;
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
  const given = messageNamed(`${name}Request`);
  const read = (bytes: Uint8Array): ControlRequest | null => {
    try {
      const message = fromBinary(given, bytes);
      const fileBytes = name === LOAD ? takeFiles(message) : NO_FILES;
      const json = toJson(given, message, { useProtoFieldName: true }) as Omit<ControlRequest, "fileBytes">;
      return { ...json, fileBytes };
    } catch {
      return null;
    }
  };
  return (call) =>
    once(call, async (bytes) => {
      const request = read(bytes);
      if (request === null) {
        call.end(UNREADABLE);
        return;
      }
      try {
        const json = (await answer(request, around)) as MessageJson;
        call.sendParts(await inTurns(messageParts(`${name}Response`, json), around.turns));
        call.end();
      } catch (error) {
        if (error instanceof TritonError) call.end(statusOf(error));
        else call.fail(error);
      }
    });
}

const LOAD = "RepositoryModelLoad";
const NO_FILES: ReadonlyMap<string, number> = new Map();

/** `HealthCheckRequest` has one field, a text, as a region's is; which service it names makes no difference. */
function isServiceName(bytes: Uint8Array): boolean {
  try {
    fromBinary(messageNamed("SystemSharedMemoryStatusRequest"), bytes);
    return true;
  } catch {
    return false;
  }
}

/** `HealthCheckResponse`: SERVING or NOT_SERVING. */
const health = (ready: boolean): Uint8Array => Uint8Array.of(8, ready ? 1 : 2);

/** Tells how it is, and whenever that changes. */
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
