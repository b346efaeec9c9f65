/** Tests that each stream that begins is reported to the server, so that its garbage is collected. 2,000 streams leave 60 MB. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import { Inference } from "../../../../src/servers/triton/grpc/answers.ts";
import { streamInferMethod } from "../../../../src/servers/triton/grpc/stream-infer.ts";
import { tritonApp } from "../../../../src/servers/triton/http/app.ts";
import type { ServerAround } from "../../../../src/servers/triton/inference/around.ts";
import { HeldBodies } from "../../../../src/servers/triton/inference/held-bodies.ts";
import type { GrpcCall } from "../../../../src/wire/grpc/call.ts";
import { WaitingBytes } from "../../../../src/wire/http/waiting-bytes.ts";
import { eventually } from "../../../server.ts";
import { pureServer } from "../../../triton/pure-server.ts";

let opened = 0;
const clock = new VirtualClock();
const config = {
  overHttp: { maxInputBytes: null, maxBodyBytes: 1000, restricted: [] },
  overGrpc: { forward: null, restricted: [] },
};
const around = {
  server: pureServer([`--model-repository=${import.meta.dir}/../../../triton/models`, "--load-time=0"], clock),
  config,
  bodies: new HeldBodies({ nowUs: () => 0 }),
  waiting: new WaitingBytes(1000),
  faults: { may: () => false },
  turns: {
    nowUs: () => 0,
    opened: () => {
      opened++;
    },
  },
} as unknown as ServerAround;

test("a request for an event stream counts as an opened stream, a whole answer does not", async () => {
  const app = tritonApp(around);
  await around.server.start();
  const ask = async (path: string) => {
    const body = '{"text_input":"one"}';
    // The answer never comes, because the model sleeps on a clock that does not advance.
    void app.handle(new Request(`http://x/v2/models/tokens/${path}`, { method: "POST", body }));
    // Reading the body and starting the request take several turns of the event loop.
    for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done));
  };
  // The first request loads modules, which takes time.
  await ask("generate_stream");
  await eventually(() => opened === 1);
  await ask("generate");
  expect(opened).toBe(1);
  await ask("generate_stream");
  expect(opened).toBe(2);
});

test("a gRPC stream counts as an opened stream", () => {
  opened = 0;
  streamInferMethod(new Inference(around))({ metadata: () => undefined } as unknown as GrpcCall);
  expect(opened).toBe(1);
});
