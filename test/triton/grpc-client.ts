/** Clients for tests of gRPC: grpc-js for regular calls, a socket for bytes that no client would send. */
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import {
  type CallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { FrameFlag, FrameType, PREFACE } from "../../src/wire/http2/frames.ts";
import type { HeaderField } from "../../src/wire/http2/hpack.ts";
import { frame, headers, settings } from "../wire/http2/peer.ts";
import { messageNamed } from "./descriptor.ts";

export const SERVICE = "/inference.GRPCInferenceService/";
type Dict = { readonly [key: string]: unknown };

export const encoded = (name: string, json: Dict): Buffer => {
  const type = messageNamed(name);
  return Buffer.from(toBinary(type, fromJson(type, json as JsonValue)));
};
export const decoded = (name: string, bytes: Uint8Array): Dict => {
  const type = messageNamed(name);
  return toJson(type, fromBinary(type, bytes), { useProtoFieldName: true }) as Dict;
};
const raw = (bytes: Buffer) => bytes;
const DEADLINE_MS = 20_000;

export class TritonClient {
  readonly client: Client;

  constructor(port: number, by: ChannelCredentials = credentials.createInsecure(), options: ChannelOptions = {}) {
    this.client = new Client(`localhost:${port}`, by, options);
  }

  /** Makes a call. Resolves with the answer, or with code and details of the failure. */
  call(method: string, request: Dict, metadata = new Metadata()): Promise<Dict> {
    const bytes = encoded(`${method}Request`, request);
    const deadline = Date.now() + DEADLINE_MS;
    return new Promise((done) => {
      this.client.makeUnaryRequest(SERVICE + method, raw, raw, bytes, metadata, { deadline }, (error, answer) => {
        if (error === null) done(decoded(`${method}Response`, answer!));
        else done({ code: status[(error as ServiceError).code], details: (error as ServiceError).details });
      });
    });
  }

  /** Makes a call with an encoded message. Resolves with the encoded answer or an error text. */
  bytes(method: string, request: Buffer): Promise<{ readonly bytes: Buffer | null; readonly error: string | null }> {
    const deadline = Date.now() + DEADLINE_MS;
    return new Promise((done) => {
      const more = { deadline };
      this.client.makeUnaryRequest(SERVICE + method, raw, raw, request, new Metadata(), more, (error, answer) =>
        done({ bytes: answer ?? null, error: error && `${status[error.code]}: ${error.details}` }),
      );
    });
  }

  stream(metadata = new Metadata(), options: CallOptions = {}) {
    return this.client.makeBidiStreamRequest(`${SERVICE}ModelStreamInfer`, raw, raw, metadata, options);
  }

  close(): void {
    this.client.close();
  }
}

/** Calls ModelInfer with a gzip-compressed message. Resolves with the status of the call. */
export async function packedCall(port: number, packed: Uint8Array): Promise<string> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  const call = session.request({
    ":method": "POST",
    ":path": `${SERVICE}ModelInfer`,
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-encoding": "gzip",
  });
  const head = Buffer.from([1, 0, 0, 0, 0]);
  head.writeUInt32BE(packed.length, 1);
  const told = Promise.withResolvers<string>();
  const take = (headers: Record<string, unknown>) => {
    const code = headers["grpc-status"];
    if (code === undefined) return;
    const message = decodeURIComponent(`${headers["grpc-message"] ?? ""}`);
    told.resolve(Number(code) === 0 ? "OK" : `${status[Number(code)]}: ${message}`);
  };
  call.on("response", take).on("trailers", take);
  call.on("data", () => {});
  call.on("error", (error) => told.resolve(`${error}`)).on("close", () => told.resolve("closed"));
  call.end(Buffer.concat([head, packed]));
  const ended = await told.promise;
  session.destroy();
  return ended;
}

export const grpcHead = (method: string, more: readonly HeaderField[] = []): readonly HeaderField[] => [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", SERVICE + method],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
  ...more,
];

/** A raw HTTP/2 connection: sends the frames that a test gives it, and keeps the frames that arrive. */
export class RawClient {
  readonly frames: { readonly type: number; readonly flags: number; readonly id: number; readonly payload: Buffer }[] =
    [];
  closed = false;
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);
  readonly #wakes = new Set<() => void>();

  constructor(port: number) {
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (part: Buffer) => this.#take(part));
    this.#socket.on("error", () => {});
    this.#socket.on("close", () => {
      this.closed = true;
      for (const wake of this.#wakes) wake();
    });
  }

  greet(...pairs: readonly (readonly [number, number])[]): this {
    return this.send(PREFACE, settings(...pairs));
  }

  send(...parts: readonly Uint8Array[]): this {
    this.#socket.write(Buffer.concat(parts));
    return this;
  }

  open(id: number, method: string, ends = false): this {
    return this.send(headers(id, ends, grpcHead(method)));
  }

  /** Stops reading until `resume`. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Waits until a condition holds. Rejects after 20 s. */
  async until(what: string, holds: () => boolean): Promise<void> {
    const deadline = performance.now() + DEADLINE_MS;
    while (!holds()) {
      if (performance.now() > deadline) throw new Error(`it did not come: ${what}`);
      await new Promise<void>((wake) => {
        const timer = setTimeout(go, 50);
        const wakes = this.#wakes;
        function go() {
          clearTimeout(timer);
          wakes.delete(go);
          wake();
        }
        wakes.add(go);
      });
    }
  }

  of(type: number, id?: number) {
    return this.frames.filter((one) => one.type === type && (id === undefined || one.id === id));
  }

  /** Returns the code of a stream's reset, or undefined without one. */
  resetOf(id: number): number | undefined {
    return this.of(FrameType.RstStream, id)[0]?.payload.readUInt32BE(0);
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(part: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, part]);
    while (this.#bytes.length >= 9) {
      const length = this.#bytes.readUIntBE(0, 3);
      if (this.#bytes.length < 9 + length) break;
      const [type, flags] = [this.#bytes[3]!, this.#bytes[4]!];
      this.frames.push({ type, flags, id: this.#bytes.readUInt32BE(5), payload: this.#bytes.subarray(9, 9 + length) });
      this.#bytes = this.#bytes.subarray(9 + length);
    }
    for (const wake of this.#wakes) wake();
  }
}

export const bytesText = (text: string) => {
  const bytes = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(bytes.length);
  return Buffer.concat([head, bytes]).toString("base64");
};
export const input = (name: string, datatype = "BYTES") => ({ name, datatype, shape: ["1"] });
export const int32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes.toString("base64");
};
export const plain = (text = "hi") => ({
  model_name: "plain",
  inputs: [input("text_input")],
  raw_input_contents: [bytesText(text)],
});
export const tokens = (words: string, sleepMs: number, id = "") => ({
  model_name: "tokens",
  id,
  inputs: [input("text_input"), input("sleep_ms", "INT32")],
  raw_input_contents: [bytesText(words), int32(sleepMs)],
});
export const framed = (bytes: Uint8Array) => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
};
/** Encodes a message as DATA frames of the size that every receiver accepts. */
export const data = (id: number, bytes: Uint8Array, ends = false): Buffer => {
  const frames: Buffer[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += 16_384) {
    const last = at + 16_384 >= bytes.length && ends ? FrameFlag.EndStream : 0;
    frames.push(frame(FrameType.Data, last, id, bytes.subarray(at, at + 16_384)));
  }
  return Buffer.concat(frames);
};
