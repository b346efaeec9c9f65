/** Tests the options of gRPC: TLS, keep-alive, restricted protocols, compressed answers, and stopping the server. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { FrameFlag, FrameType, Http2Code } from "../../src/wire/http2/frames.ts";
import { selfSigned } from "../../src/wire/tls/self-signed.ts";
import { frame, headers } from "../wire/http2/peer.ts";
import { hostTriton, startTriton, type TritonHosted } from "./child.ts";
import {
  bytesText,
  data,
  decoded,
  encoded,
  framed,
  grpcHead,
  input,
  plain,
  RawClient,
  TritonClient,
  tokens,
} from "./grpc-client.ts";

setDefaultTimeout(60_000);

const MODELS = new URL("models", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "triton-grpc-"));
let server: TritonHosted;
beforeAll(async () => {
  server = await hostTriton([]);
});
afterAll(async () => {
  await server.stop(0);
  rmSync(folder, { recursive: true });
});

test("TLS with and without client certificates; an invalid file is reported in one line", async () => {
  const [own, clients] = [selfSigned(), selfSigned()];
  const files = Object.entries({ cert: own.cert, key: own.key, root: clients.cert }).map(([name, text]) => {
    const path = join(folder, `${name}.pem`);
    writeFileSync(path, text);
    return path;
  });
  const [cert, key, root] = files as [string, string, string];
  const base = [`--grpc-server-cert=${cert}`, `--grpc-server-key=${key}`];
  const secure = await hostTriton([...base, "--grpc-use-ssl=true"]);
  const mutual = await hostTriton([...base, "--grpc-use-ssl-mutual=true", `--grpc-root-cert=${root}`]);
  const ask = async (port: number, by = credentials.createSsl(Buffer.from(own.cert))) => {
    const asked = new TritonClient(port, by);
    const answer = await Promise.race([asked.call("ServerLive", {}), Bun.sleep(3000).then(() => ({ code: "none" }))]);
    asked.close();
    return answer;
  };
  expect(await ask(secure.grpc)).toEqual({ live: true });
  expect(await ask(mutual.grpc)).not.toEqual({ live: true });
  const known = credentials.createSsl(Buffer.from(own.cert), Buffer.from(clients.key), Buffer.from(clients.cert));
  expect(await ask(mutual.grpc, known)).toEqual({ live: true });
  await Promise.all([secure.stop(0), mutual.stop(0)]);
  const missing = startTriton([
    "--grpc-use-ssl=true",
    `--grpc-server-cert=${cert}`,
    `--grpc-server-key=${folder}/none`,
  ]);
  expect(await missing.catch(({ message }: Error) => message)).toEndWith(
    `\nunderstudy serve: --grpc-server-key ${folder}/none: cannot be read (ENOENT)\n`,
  );
  expect(await startTriton(["--grpc-use-ssl=true"]).catch(({ message }: Error) => message)).toContain(
    "--grpc-use-ssl: needs --grpc-server-cert and --grpc-server-key",
  );
});

test("keep-alive: silent clients are cut off, old connections get no new calls, too many pings end a connection", async () => {
  const kept = await hostTriton([
    "--grpc-keepalive-time=200",
    "--grpc-keepalive-timeout=200",
    "--grpc-keepalive-permit-without-calls=true",
  ]);
  const silent = new RawClient(kept.grpc).greet();
  await silent.until("a ping, and the end", () => silent.of(FrameType.Ping).length > 0 && silent.closed);
  await kept.stop(0);
  const aged = await hostTriton(["--grpc-max-connection-age=200", "--grpc-max-connection-age-grace=200"]);
  const old = new RawClient(aged.grpc).greet().open(1, "ModelStreamInfer");
  await old.until("a GOAWAY, and the end", () => old.of(FrameType.GoAway).length > 0 && old.closed);
  expect(old.of(FrameType.GoAway)[0]!.payload.readUInt32BE(4)).toBe(Http2Code.None);
  await aged.stop(0);
  const eager = new RawClient(server.grpc).greet();
  for (let at = 0; at < 5; at++) eager.send(frame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
  await eager.until("the end", () => eager.closed);
  expect(eager.of(FrameType.GoAway)[0]!.payload.toString("latin1")).toContain("too_many_pings");
});

test("one ping at a time: a client that does not answer is cut off, one that answers is pinged again and again", async () => {
  const kept = await hostTriton([
    "--grpc-keepalive-time=100",
    "--grpc-keepalive-timeout=400",
    "--grpc-keepalive-permit-without-calls=true",
  ]);
  const silent = new RawClient(kept.grpc).greet();
  const alive = new RawClient(kept.grpc).greet();
  let answered = 0;
  await alive.until("four pings", () => {
    for (const { flags, payload } of alive.of(FrameType.Ping).slice(answered)) {
      answered++;
      alive.send(frame(FrameType.Ping, flags | FrameFlag.Ack, 0, payload));
    }
    return answered >= 4;
  });
  await silent.until("the end", () => silent.closed);
  expect([silent.of(FrameType.Ping).length, alive.closed]).toEqual([1, false]);
  alive.close();
  await kept.stop(0);
});

test("a client that sends other frames after a ping, but no answer, is cut off too", async () => {
  const kept = await hostTriton([
    "--grpc-keepalive-time=200",
    "--grpc-keepalive-timeout=200",
    "--grpc-keepalive-permit-without-calls=true",
  ]);
  const mute = new RawClient(kept.grpc).greet();
  await mute.until("a ping", () => mute.of(FrameType.Ping).length > 0);
  mute.send(frame(FrameType.WindowUpdate, 0, 0, Buffer.from([0, 0, 0, 1])));
  await mute.until("the end", () => mute.closed);
  expect(mute.of(FrameType.Ping).length).toBe(1);
  await kept.stop(0);
});

test("restricted protocols need their header, answers are compressed, and gRPC can be switched off", async () => {
  const flags = ["--grpc-restricted-protocol=health,logging:k=v", "--grpc-infer-response-compression-level=low"];
  const other = await hostTriton([
    ...flags,
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    "--load-model=plain",
  ]);
  const one = new RawClient(other.grpc).greet();
  const live = framed(Buffer.alloc(0));
  one.open(1, "ServerLive").send(data(1, live, true));
  one.send(headers(3, false, grpcHead("ServerLive", [["triton-grpc-protocol-k", "v"]])), data(3, live, true));
  one.send(
    headers(5, false, grpcHead("ModelInfer", [["grpc-accept-encoding", "identity,gzip"]])),
    data(5, framed(encoded("ModelInferRequest", plain("x".repeat(5000)))), true),
  );
  await one.until(
    "all answers",
    () => [3, 5].every((id) => one.of(FrameType.Data, id).length > 0) && one.of(FrameType.Headers, 1).length > 0,
  );
  expect(one.of(FrameType.Headers, 1)[0]!.payload.toString("latin1")).toContain(
    "This protocol is restricted, expecting header 'triton-grpc-protocol-k'",
  );
  expect(one.of(FrameType.Data, 3)[0]!.payload.length).toBe(7);
  const packed = one.of(FrameType.Data, 5)[0]!.payload;
  expect([packed[0], packed.length < 500]).toEqual([1, true]);
  expect(decoded("ModelInferResponse", Bun.gunzipSync(new Uint8Array(packed.subarray(5)))).model_name).toBe("plain");
  one.close();
  await other.stop(0);
  const without = await hostTriton(["--allow-grpc=false"]);
  expect(without.grpc).toBe(0);
  await without.stop(0);
});

test("stopping 2.73: running calls are answered, new connections are refused, then the process ends", async () => {
  const ending = await startTriton([
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    "--load-model=tokens",
  ]);
  const asked = new TritonClient(ending.grpc);
  const stream = asked.stream();
  const answers: unknown[] = [];
  const first = Promise.withResolvers<void>();
  stream.on("data", (bytes: Buffer) => {
    answers.push(bytes);
    first.resolve();
  });
  const ended = new Promise<number>((done) => stream.on("status", ({ code }) => done(code)));
  stream.write(encoded("ModelInferRequest", tokens("a b c d", 150)));
  stream.end();
  await first.promise;
  const exit = ending.stop("SIGTERM");
  await Bun.sleep(50);
  const late = new RawClient(ending.grpc);
  await late.until("no connection", () => late.closed);
  expect([await ended, answers.length, await exit]).toEqual([0, 4, 0]);
  asked.close();
});

test.each([false, true])(
  "an end that --exit-timeout-secs interrupts is reported, and the process ends with 1; the model unloads: %p",
  async (unloads) => {
    const ending = await startTriton([
      "--exit-timeout-secs=0",
      `--model-repository=${MODELS}`,
      "--model-control-mode=explicit",
      "--load-model=tokens",
    ]);
    const asked = new TritonClient(ending.grpc);
    const stream = asked.stream();
    const first = new Promise((resolve) => stream.once("data", resolve));
    stream.on("error", () => {});
    stream.write(encoded("ModelInferRequest", tokens("a b c d", 1000)));
    await first;
    if (unloads) await fetch(`${ending.url}/v2/repository/models/tokens/unload`, { method: "POST" });
    expect(await ending.stop("SIGTERM")).toBe(1);
    expect(ending.output()).toEndWith(
      "understudy serve: failed to stop server: Internal - Exit timeout expired. Exiting immediately.\n",
    );
    asked.close();
  },
);

test.each(["0", "1"])(
  "the end is interrupted in the same way while the engine generates, after %s s",
  async (seconds) => {
    const ending = await startTriton([`--exit-timeout-secs=${seconds}`, "--timing=constant:ttft=20ms,itl=20ms"]);
    const body = JSON.stringify({ text_input: "Hello", stream: true, max_tokens: 1000, ignore_eos: true });
    const answer = await fetch(`${ending.url}/v2/models/vllm_model/generate_stream`, { method: "POST", body });
    const reader = answer.body!.getReader();
    await reader.read();
    const ended = ending.stop("SIGTERM");
    while (!(await reader.read().catch(() => ({ done: true }))).done);
    expect(await ended).toBe(1);
  },
);

test("a used port is reported in one line", async () => {
  const wrong = await startTriton([`--grpc-port=${server.grpc}`]).catch(({ message }: Error) => message);
  expect(wrong).toContain(`--grpc-port ${server.grpc}: 127.0.0.1:${server.grpc} is in use; choose another port`);
});

test("headers that match the pattern become parameters; Triton's own names and an invalid pattern are refused", async () => {
  const forwards = await hostTriton([
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    "--load-model=plain",
    "--http-header-forward-pattern=^X-|^priority$",
  ]);
  const asked = async (headers: Readonly<Record<string, string>>) => {
    const tensor = (name: string, text: string) => ({ name, datatype: "BYTES", shape: [1], data: [text] });
    const body = { inputs: [tensor("text_input", "hi"), tensor("mode", "params")], parameters: { own: 1 } };
    const url = `${forwards.url}/v2/models/plain/infer`;
    const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    return `${answer.status} ${await answer.text()}`;
  };
  expect(await asked({ "x-team": "blue", team: "red" })).toContain(String.raw`{\"own\":1,\"x-team\":\"blue\"}`);
  expect(await asked({ priority: "1" })).toBe(
    `400 {"error":"Header 'priority' is reserved for Triton usage and cannot be forwarded."}`,
  );
  await forwards.stop(0);
  const wrong = startTriton(["--http-header-forward-pattern=("]);
  expect(await wrong.catch(({ message }: Error) => message)).toMatch(
    /ended with 2:\nunderstudy serve: --http-header-forward-pattern \(: takes a pattern of RE2 \(.*\)\n$/,
  );
});

test("metadata that matches the pattern becomes parameters; Triton's own names and an invalid pattern are refused", async () => {
  const forwards = await hostTriton([
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    "--load-model=plain",
    "--grpc-header-forward-pattern=^x-|^priority$",
  ]);
  const asked = framed(
    encoded("ModelInferRequest", {
      ...plain(),
      inputs: [input("text_input"), input("mode")],
      raw_input_contents: [bytesText("hi"), bytesText("params")],
    }),
  );
  const one = new RawClient(forwards.grpc).greet();
  one.send(headers(1, false, grpcHead("ModelInfer", [["x-team", "blue"]])), data(1, asked, true));
  one.send(headers(3, false, grpcHead("ModelInfer", [["priority", "1"]])), data(3, asked, true));
  await one.until(
    "both answers",
    () => one.of(FrameType.Data, 1).length > 0 && one.of(FrameType.Headers, 3).length > 0,
  );
  expect(one.of(FrameType.Data, 1)[0]!.payload.toString("latin1")).toContain(`{"x-team":"blue"}`);
  expect(one.of(FrameType.Headers, 3)[0]!.payload.toString("latin1")).toContain(
    "Header 'priority' is reserved for Triton usage and cannot be forwarded.",
  );
  one.close();
  await forwards.stop(0);
  const wrong = startTriton(["--grpc-header-forward-pattern=("]);
  expect(await wrong.catch(({ message }: Error) => message)).toMatch(
    /^the server ended with 2:\n.*\nunderstudy serve: --grpc-header-forward-pattern \(: takes a pattern of RE2 \(.+\)\n$/s,
  );
});
