/**
 * Defines the servers whose threads are delayed or fail: how each role is started, and a load that uses all of its threads.
 */
import { join } from "node:path";
import { encoded, TritonClient } from "../triton/grpc-client.ts";
import { flagsIn, LONG, Load, MODEL, streamed, writeFixture } from "./load.ts";
import { bodyOf, type LoadRequest, pageOf, post, RoleLoad, type ServerLoad, WrongAnswer } from "./role-load.ts";

/** The flags that start a server, and the load for it. */
export interface Setup {
  /** Returns the server's flags. `folder` is for its files. */
  readonly flags: (folder: string) => string[];
  readonly env: Readonly<Record<string, string>>;
  /** Matches the output of the server once all of its listeners are open. */
  readonly isReady: RegExp;
  readonly load: (server: { readonly url: string; readonly folder: string; readonly output: string }) => ServerLoad;
}

const LISTENS = /http:\/\/127\.0\.0\.1:\d+/;

/** The vLLM role with these flags in addition. */
export function vllm(flags: readonly string[]): Setup {
  const isOneProcess = !flags.includes("--workers");
  return {
    flags: (folder) => ["--port", "0", ...flagsIn(folder), ...flags],
    env: isOneProcess ? { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1" } : {},
    isReady: LISTENS,
    load: ({ url, folder }) => new Load(url, folder, isOneProcess),
  };
}

const TOKENIZER = new URL("../conformance/model", import.meta.url).pathname;

/** With a folder as the tokenizer, the encoder's thread reads it. */
export const withTokenizer = vllm(["--enable-lora", "--tokenizer", TOKENIZER]);

const TIMING = ["--timing", "constant:ttft=2ms,itl=1ms"];
const chat = (content: string, more: object = {}) => ({
  ...{ model: MODEL, messages: [{ role: "user", content }], max_tokens: 12, seed: 7, ...more },
});

export const trtllmServe: Setup = {
  flags: (folder) => [
    ...["--role", "trtllm-serve", "--port", "0", ...TIMING, "--return-perf-metrics", "--exit-with-parent"],
    ...[
      "--timeout-keep-alive",
      "255",
      "--fixtures",
      join(folder, "fixtures"),
      "--truth-log",
      join(folder, "truth.jsonl"),
    ],
  ],
  env: {},
  isReady: LISTENS,
  load: ({ url, folder }) => {
    const whole = (name: string, body: object): LoadRequest => ({
      name,
      ask: async () => {
        const { choices } = JSON.parse(await bodyOf(name, post(`${url}/v1/chat/completions`, body)));
        return choices[0].message.content;
      },
    });
    const stream = (name: string, body: object): LoadRequest => ({
      name,
      ask: async () =>
        streamed(name, await bodyOf(name, post(`${url}/v1/chat/completions`, { ...body, stream: true }))),
    });
    let version = 0;
    const changeFixture = () => writeFixture(folder, ++version);
    /** Accepts any version in the answer. */
    const fixture = (request: LoadRequest): LoadRequest => ({
      ...request,
      ask: async () => (await request.ask()).replace(/^version \d+$/, "version"),
    });
    return new RoleLoad(changeFixture, [
      ...[whole("short", chat("Say a word.")), stream("short stream", chat("Say more."))],
      ...[whole("long", chat(LONG)), stream("long stream", chat(LONG))],
      ...[whole("fixture", chat("fixture")), stream("fixture stream", chat("fixture"))].map(fixture),
      pageOf("/prometheus/metrics", `${url}/prometheus/metrics`, ["trtllm_request_success_total"]),
      ...[1, 2, 3].map((at) =>
        pageOf(`/metrics/understudy ${at}`, `${url}/metrics/understudy`, ["understudy_requests_total"]),
      ),
    ]);
  },
};

const SHIPPED = new URL("../../src/servers/triton/shipped", import.meta.url).pathname;
const INPUTS = ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "FP32", shape: [4] }));
const bytes = (text: string) => ({ bytes_contents: [Buffer.from(text).toString("base64")] });

export const triton: Setup = {
  flags: (folder) => [
    ...["--role", "triton", "--http-port=0", "--grpc-port=0", "--metrics-port=0", `--model-repository=${SHIPPED}`],
    ...[`--truth-log=${join(folder, "truth.jsonl")}`, "--allow-request-orders=all", "--exit-with-parent=true"],
    ...TIMING,
  ],
  env: {},
  isReady: /^ {2}metrics +http/m,
  load: ({ url, output }) => {
    const metrics = /^ {2}metrics +(\S+)$/m.exec(output)![1]!;
    const grpc = new TritonClient(Number(/^ {2}grpc +\S+:(\d+)$/m.exec(output)![1]));
    const http = (name: string, path: string, body: object, headers: object = {}): LoadRequest => ({
      name,
      ask: () => bodyOf(name, post(`${url}/v2/models/${path}`, body, headers)),
    });
    const text = (content: string, more: object = {}) => ({ text_input: content, max_tokens: 12, seed: 7, ...more });
    const call = async (name: string, request: Parameters<TritonClient["call"]>[1]) => {
      const { code, details, ...answer } = await grpc.call("ModelInfer", request);
      if (code !== undefined) throw new WrongAnswer(`${name}: ${code} ${details}`);
      return JSON.stringify(answer);
    };
    return new RoleLoad(() => {}, [
      http("infer", "add_sub/infer", { inputs: INPUTS.map((input) => ({ ...input, data: [1, 2, 3, 4] })) }),
      ...["ensemble", "vllm_model"].flatMap((model) => [
        http(`short of ${model}`, `${model}/generate`, text("Say a word.")),
        http(`long of ${model}`, `${model}/generate`, text(LONG)),
        http(`stream of ${model}`, `${model}/generate_stream`, text(LONG, { stream: true })),
      ]),
      // The truth log of a Triton server only has disturbed answers.
      http("disturbed", "vllm_model/generate_stream", text("Say it.", { stream: true }), SPLIT),
      {
        name: "infer over gRPC",
        ask: () =>
          call("infer over gRPC", {
            model_name: "add_sub",
            inputs: INPUTS.map((input) => ({ ...input, contents: { fp32_contents: [1, 2, 3, 4] } })),
          }),
      },
      { name: "stream over gRPC", ask: () => streamOver(grpc) },
      ...[1, 2, 3, 4].map((at) => pageOf(`/metrics ${at}`, metrics, ["nv_inference_request_success", "nv_gpu"])),
    ]);
  },
};

/** Orders an answer in single bytes. */
const SPLIT = { "x-understudy": JSON.stringify({ fault: "S1,split" }) };

/** Returns the bytes of a stream of vllm_model, in hex. */
function streamOver(grpc: TritonClient): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const call = grpc.stream();
  const answers: Buffer[] = [];
  call.on("data", (answer: Buffer) => answers.push(answer));
  call.on("error", (error: Error) => reject(new WrongAnswer(`stream over gRPC: ${error.message}`)));
  call.on("end", () => resolve(Buffer.concat(answers).toString("hex")));
  call.write(
    encoded("ModelInferRequest", {
      model_name: "vllm_model",
      inputs: [
        { name: "text_input", datatype: "BYTES", shape: [1], contents: bytes(LONG) },
        { name: "stream", datatype: "BOOL", shape: [1], contents: { bool_contents: [true] } },
        { name: "sampling_parameters", datatype: "BYTES", shape: [1], contents: bytes('{"seed":7,"max_tokens":12}') },
      ],
    }),
  );
  call.end();
  return promise;
}
