/** Makes one recorded gRPC call with grpc-js, independently of our code, and returns the result in protobuf's JSON. */
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { messageNamed } from "../descriptor.ts";
import type { Dict, Json } from "./recordings.ts";

export interface GrpcCallStep {
  readonly method: string;
  readonly request?: Dict;
  readonly requests?: readonly { readonly after_ms?: number; readonly message: Dict }[];
  readonly raw_path?: string;
  readonly b64?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly deadline_ms?: number;
  readonly cancel_after_ms?: number;
}

const TIMEOUT_MS = 60_000;
/** Messages that the recordings' client makes itself. */
const CLIENT_TEXTS: Readonly<Record<string, string>> = {
  DEADLINE_EXCEEDED: "Deadline Exceeded",
  CANCELLED: "Locally cancelled by application!",
};

const bytesOf = (name: string, json: Dict): Buffer => {
  const type = messageNamed(name);
  return Buffer.from(toBinary(type, fromJson(type, json as JsonValue)));
};
const jsonOf = (name: string, bytes: Uint8Array): Json => {
  const type = messageNamed(name);
  return toJson(type, fromBinary(type, bytes), { useProtoFieldName: true }) as Json;
};
const raw = (bytes: Buffer) => bytes;

/** Makes the call. The result has the form of the recordings. */
export async function grpcCall(port: number, call: GrpcCallStep): Promise<Dict> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  try {
    if (call.method === "ModelStreamInfer") return await stream(client, call);
    return await unary(client, call);
  } finally {
    client.close();
  }
}

const SERVICE = "/inference.GRPCInferenceService/";

function metadataOf({ metadata = {} }: GrpcCallStep): Metadata {
  const made = new Metadata();
  for (const [name, value] of Object.entries(metadata)) made.set(name, value);
  return made;
}

function failure({ code, details }: Pick<ServiceError, "code" | "details">, byClient: boolean): Dict {
  const name = status[code]!;
  return { code: name, details: (byClient && CLIENT_TEXTS[name]) || details };
}

async function unary(client: Client, call: GrpcCallStep): Promise<Dict> {
  const { method, raw_path: path = SERVICE + method, b64 } = call;
  const request = b64 === undefined ? bytesOf(`${method}Request`, call.request ?? {}) : Buffer.from(b64, "base64");
  const deadline = Date.now() + (call.deadline_ms ?? TIMEOUT_MS);
  const done = Promise.withResolvers<Dict>();
  const made = client.makeUnaryRequest(path, raw, raw, request, metadataOf(call), { deadline }, (error, answer) => {
    const own = call.deadline_ms !== undefined || call.cancel_after_ms !== undefined;
    if (error !== null) done.resolve(failure(error, own));
    else if (b64 !== undefined) done.resolve({ response_b64: answer!.toString("base64") });
    else done.resolve({ response: jsonOf(`${method}Response`, answer!) });
  });
  if (call.cancel_after_ms !== undefined) setTimeout(() => made.cancel(), call.cancel_after_ms);
  return done.promise;
}

async function stream(client: Client, call: GrpcCallStep): Promise<Dict> {
  const deadline = Date.now() + TIMEOUT_MS;
  const made = client.makeBidiStreamRequest(`${SERVICE}ModelStreamInfer`, raw, raw, metadataOf(call), { deadline });
  const responses: Json[] = [];
  const ended = Promise.withResolvers<Dict>();
  made.on("data", (bytes: Buffer) => responses.push(jsonOf("ModelStreamInferResponse", bytes)));
  made.on("error", () => {});
  made.on("status", ({ code, details }) =>
    ended.resolve(failure({ code, details }, call.cancel_after_ms !== undefined)),
  );
  if (call.cancel_after_ms !== undefined) setTimeout(() => made.cancel(), call.cancel_after_ms);
  const status = await Promise.race([ended.promise, sendAll(call, made, ended.promise)]);
  const { code, details } = status ?? (await ended.promise);
  return { responses, code: code!, details: details! };
}

/** Sends each message when it is due. Returns after the last one, or when the call ends earlier. */
async function sendAll(
  { requests = [], cancel_after_ms: cancelMs }: GrpcCallStep,
  made: { write(bytes: Buffer): void; end(): void },
  ended: Promise<Dict>,
): Promise<null> {
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  void ended.then(() => {
    over = true;
    clearTimeout(timer);
  });
  for (const { after_ms: afterMs = 0, message } of requests) {
    if (afterMs > 0) await new Promise<void>((due) => (timer = setTimeout(due, afterMs)));
    if (over) return null;
    made.write(bytesOf("ModelInferRequest", message));
  }
  if (cancelMs === undefined) made.end();
  return null;
}
