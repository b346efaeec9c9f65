/** Tests that the player of gRPC recordings returns when a call ends, without waiting for messages still to be sent. */
import { expect, test } from "bun:test";
import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { grpcCall } from "./golden/grpc-wire.ts";

const PATH = "/inference.GRPCInferenceService/ModelStreamInfer";
const raw = (bytes: Buffer) => bytes;
const codec = { requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };

/** A server that ends each stream at its first message. `received` counts messages. */
async function endsEarly() {
  const counted = { received: 0 };
  const server = new Server();
  server.addService(
    { ModelStreamInfer: { path: PATH, requestStream: true, responseStream: true, ...codec } },
    {
      ModelStreamInfer(call: ServerDuplexStream<Buffer, Buffer>) {
        call.on("data", () => {
          counted.received++;
          call.emit("error", { code: status.UNAVAILABLE, details: "over" });
        });
      },
    },
  );
  const port = await new Promise<number>((done, failed) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? failed(error) : done(bound),
    ),
  );
  return { port, counted, stop: () => server.forceShutdown() };
}

test("a stream that ends early is reported at once, and its later messages are not sent", async () => {
  const { port, counted, stop } = await endsEarly();
  const message = { model_name: "m" };
  const requests = [{ message }, { after_ms: 50_000, message }, { after_ms: 50_000, message }];
  const call = grpcCall(port, { method: "ModelStreamInfer", requests });
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(() => late.resolve("still waits to send"), 15_000);
  expect(await Promise.race([call, late.promise])).toEqual({ responses: [], code: "UNAVAILABLE", details: "over" });
  expect(counted.received).toBe(1);
  clearTimeout(timer);
  stop();
}, 30_000);

test("a message with after_ms is sent", async () => {
  const { port, stop } = await endsEarly();
  const call = { method: "ModelStreamInfer", requests: [{ after_ms: 30, message: { model_name: "m" } }] };
  expect(await grpcCall(port, call)).toEqual({ responses: [], code: "UNAVAILABLE", details: "over" });
  stop();
});
