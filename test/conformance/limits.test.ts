/** Tests each limit of docs/reference/limits.md, and checks that a test shows every row of it. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import net from "node:net";
import { BENCHES } from "../../scripts/bench.ts";
import { limits } from "../../scripts/docs/limits.ts";
import { checkHelp } from "../../src/cli/check/check-options.ts";
import { serveHelp } from "../../src/cli/options/help.ts";
import { tritonServerOptions } from "../../src/cli/options/triton-server-options.ts";
import { stressHelp } from "../../src/cli/stress/stress-options.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { eventually, type ServerHandle, sample, serve } from "../server.ts";
import { posted, RawSocket } from "./raw-socket.ts";

setDefaultTimeout(60_000);

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const shown = new Set<string>();
const row = (name: string, show: () => Promise<void>) => {
  shown.add(name);
  test(name, show);
};

const FLAGS = ["--served-model-name", "m", "--max-model-len", "120000", "--num-gpu-blocks-override", "16384"];
describe("a server with limits", () => {
  let server: HostedServer;
  /** Starts at once and runs during the other tests. */
  let silence: Promise<readonly [idle: string, head: string]>;
  beforeAll(async () => {
    const limits = [
      "--max-body-mb",
      "1",
      "--body-timeout",
      "0.5",
      "--request-timeout",
      "1",
      "--timeout-keep-alive",
      "2",
    ];
    server = await hosted([...FLAGS, "--timing", "linear:base=20ms,prefill=0ms,decode=0ms", ...limits]);
    silence = Promise.all([wire(["GET /health HTTP/1.1\r\nHost: x\r\n\r\n"]), wire(["GET /health HTTP/1.1\r\nHost"])]);
  });
  afterAll(async () => {
    await server.stop();
  });
  const portOf = ({ url }: ServerHandle) => Number(new URL(url).port);

  /** Returns everything received until the server closes. */
  function wire(parts: readonly (string | Buffer)[], port = portOf(server)): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const socket = net.connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (data) => {
      text += data.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
    for (const part of parts) socket.write(part);
    return promise;
  }
  const get = (path: string, lines = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${lines}Connection: close\r\n\r\n`;
  const TOO_LARGE = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n";
  const LINES_MOST = 10_000;
  const completion = (fields: object) =>
    posted("/v1/completions", { model: "m", prompt: "x", ignore_eos: true, ...fields });
  const post = (fields: object) =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", prompt: "x", ignore_eos: true, ...fields }),
    });
  const counted = (outcome: string, { url }: ServerHandle = server) =>
    sample(url, `understudy_requests_total{outcome="${outcome}"`);
  /** Waits until no refused request is left. */
  const rest = ({ url }: ServerHandle = server) =>
    eventually(async () => {
      const names = ["understudy_requests_open", "understudy_streams_open", "vllm:num_requests_running"];
      const values = await Promise.all(names.map((name) => sample(url, name)));
      return values.every((value) => value === 0);
    });
  const residentMb = (pid: number) =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) / 1024;

  row("a head that is too large gets 431", async () => {
    expect(await wire([get("/version", `X: ${"x".repeat(4_000_000)}\r\n`)])).toStartWith("HTTP/1.1 200 OK\r\n");
    // The server does not read the rest, so the client may miss the refusal while it writes.
    expect(["", TOO_LARGE]).toContain(await wire([get("/version", `X: ${"x".repeat(5_000_000)}\r\n`)]));
    const small = await hosted([...FLAGS, "--h11-max-incomplete-event-size", "2000"]);
    try {
      expect(await wire([get("/version", `X: ${"x".repeat(1800)}\r\n`)], portOf(small))).toStartWith("HTTP/1.1 200 OK");
      expect(await wire([get("/version", `X: ${"x".repeat(2100)}\r\n`)], portOf(small))).toBe(TOO_LARGE);
    } finally {
      await small.stop();
    }
  });

  row("too many header lines get 431", async () => {
    const many = (count: number) => Array.from({ length: count }, (_, i) => `X${i}: 1\r\n`).join("");
    // Host and Connection are two more lines.
    expect(await wire([get("/version", many(LINES_MOST - 2))])).toStartWith("HTTP/1.1 200 OK\r\n");
    expect(await wire([get("/version", many(LINES_MOST - 1))])).toBe(TOO_LARGE);
  });

  row("a body that is too large gets 413, and the next request is answered", async () => {
    const mebibyte = Buffer.alloc(2 ** 20, "x");
    // This server has time to read and drop the rest of the body. A busy machine needs more than half a second.
    const patient = await serve([...FLAGS, "--timing", "none", "--max-body-mb", "1"]);
    const mb = residentMb(patient.pid);
    for (const [path, chunked] of [
      ["/v1/completions", false],
      ["/v1/chat/completions", true],
      ["/tokenize", true],
    ] as const) {
      const length = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${100 * 2 ** 20}`;
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
      const parts: (string | Buffer)[] = [head];
      for (let i = 0; i < 100; i++) parts.push(...(chunked ? ["100000\r\n", mebibyte, "\r\n"] : [mebibyte]));
      if (chunked) parts.push("0\r\n\r\n");
      const text = await wire([...parts, get("/version")], portOf(patient));
      expect(text).toStartWith("HTTP/1.1 413 ");
      expect(text).toContain('"message":"Request body is larger than 1 MiB (--max-body-mb)."');
      expect(text).toContain("HTTP/1.1 200 OK");
    }
    expect(await counted("refused", patient)).toBe(2);
    await rest(patient);
    expect(residentMb(patient.pid) - mb).toBeLessThan(80);
    await patient.stop();
  });

  row("a body that never ends gets 408", async () => {
    for (const path of ["/v1/completions", "/tokenize"]) {
      const drip = net.connect(portOf(server), "127.0.0.1");
      let text = "";
      const closed = new Promise((done) => drip.on("close", done));
      drip.on("data", (data) => {
        text += data.toString("latin1");
      });
      drip.on("error", () => {});
      drip.write(
        `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n`,
      );
      // A connection that keeps sending is also late.
      const dripping = setInterval(() => drip.write("x"), 50);
      await closed;
      clearInterval(dripping);
      expect(text).toStartWith("HTTP/1.1 408 Request Timeout\r\n");
      expect(text).toContain(
        '"message":"Request body did not arrive within 0.5 s (--body-timeout).","type":"RequestTimeout"',
      );
    }
    await rest();
  });

  row("an answer that takes too long gets 504, or an error in its stream", async () => {
    const message = "Request took longer than 1 s (--request-timeout).";
    const error = { message, type: "GatewayTimeout", param: null, code: 504 };
    const before = await counted("error");
    const [short, plain, stream] = await Promise.all([
      post({ max_tokens: 2 }),
      post({ max_tokens: 1000 }),
      post({ max_tokens: 1000, stream: true, n: 2 }),
    ]);
    expect(short.status).toBe(200);
    expect([plain.status, await plain.json()]).toEqual([504, { error }]);
    const frames = (await stream.text()).trim().split("\n\n");
    expect(frames.length).toBeGreaterThan(4);
    expect(JSON.parse(frames.at(-2)!.slice("data: ".length))).toEqual({ error });
    expect(frames.at(-1)).toBe("data: [DONE]");
    expect((await counted("error")) - before).toBe(2);
    await rest();
  });

  test("an answer is ended if its client does not read for too long", async () => {
    const fast = await hosted([
      ...FLAGS,
      "--timing",
      "linear:base=1ms,prefill=0ms,decode=0ms",
      "--request-timeout",
      "2",
      "--max-logprobs",
      "200",
    ]);
    try {
      const stalled = await RawSocket.connect(portOf(fast), { paused: true });
      stalled.write(completion({ max_tokens: 100_000, stream: true, logprobs: 200 }));
      await eventually(async () => (await sample(fast.url, "understudy_held_bytes")) > 0);
      await eventually(async () => (await sample(fast.url, 'understudy_requests_total{outcome="error"')) === 1);
      expect(await sample(fast.url, "understudy_streams_open")).toBe(0);
      expect(await sample(fast.url, "understudy_held_bytes")).toBe(0);
      stalled.destroy();
    } finally {
      await fast.stop();
    }
  });

  row(
    "more connections than descriptors allow: closed as they come; who is served is served on, and threads start",
    async () => {
      const command = `ulimit -n 120; exec "$0" "$@"`;
      const words = [process.execPath, main, "serve", "--port", "0", "--http2-port", "0", ...FLAGS];
      const timing = ["--timing", "linear:base=20ms,prefill=0ms,decode=0ms", "--disable-uvicorn-access-log"];
      const child = Bun.spawn(["sh", "-c", command, ...words, ...timing], { stdout: "pipe", stderr: "pipe" });
      const complaint = new Response(child.stderr).text();
      let text = "";
      const found = Promise.withResolvers<string[]>();
      void (async () => {
        for await (const part of child.stdout) {
          text += new TextDecoder().decode(part);
          const urls = text.match(/http:\/\/127\.0\.0\.1:\d+/g) ?? [];
          if (text.includes("  try ")) found.resolve(urls);
        }
      })();
      try {
        const ports = (await found.promise).map((url) => Number(new URL(url).port));
        expect(new Set(ports).size).toBe(2);
        const [port, http2Port] = ports as [number, number];
        // The encoder's thread and the thread for large bodies have not started yet.
        const [first, second] = [await RawSocket.connect(port), await RawSocket.connect(port)];
        const both = [...Array.from({ length: 100 }, () => port), ...Array.from({ length: 100 }, () => http2Port)];
        const tried = await Promise.allSettled(both.map((port) => RawSocket.connect(port)));
        const idle = tried.flatMap((attempt) => (attempt.status === "fulfilled" ? [attempt.value] : []));
        await eventually(() => idle.filter(({ closed }) => !closed).length <= 120 - 64 - 2);
        first.write(completion({ max_tokens: 100_000, stream: true }));
        await eventually(() => first.text.includes("data: "));
        second.write(completion({ prompt: "word ".repeat(100_000), max_tokens: 1 }));
        await eventually(() => second.text.startsWith("HTTP/1.1 "));
        const before = first.text.length;
        await eventually(() => first.text.length > before + 2000);
        for (const socket of [...idle, second]) socket.destroy();
        await eventually(async () => (await wire([get("/version")], port)).startsWith("HTTP/1.1 200 OK\r\n"));
        first.destroy();
        expect(child.exitCode).toBeNull();
      } finally {
        child.kill();
        await child.exited;
      }
      expect(await complaint).toContain("as many as ulimit -n (120) allows; new connections are closed");
    },
  );

  row("an idle connection is closed after its time", async () => {
    const [answered] = await silence;
    expect(answered).toStartWith("HTTP/1.1 200 OK\r\n");
  });

  row("the connection is closed if a head never ends", async () => {
    const [, halfHead] = await silence;
    expect(halfHead).toBe("");
  });
});

test("every row of the limits names a test that exists, and every test here has its row", () => {
  const rows = Object.values(limits).flat();
  expect(rows.length).toBeGreaterThan(50);
  const here: string[] = [];
  for (const { what, test: name, file } of rows) {
    if (name.startsWith("bench ")) expect(name.slice("bench ".length) in BENCHES, name).toBe(true);
    else if (file === undefined) here.push(name);
    else expect(read(file), what).toContain(`test(${JSON.stringify(name)}`);
  }
  expect(here.toSorted()).toEqual([...shown].sort());
});

test("every option that a limit names exists", () => {
  const help = [serveHelp("all"), stressHelp(), checkHelp(), ...Object.keys(tritonServerOptions)];
  const known = new Set(
    help
      .join("\n")
      .split(/[\s,=[\]]/)
      .map((word) => word.replace(/^--(no-)?/, "")),
  );
  const named = Object.values(limits).flatMap((rows) => rows.flatMap(({ option }) => option ?? []));
  const flags = named.filter((option) => option.startsWith("--")).map((option) => option.replace(/^--(no-)?/, ""));
  expect(flags.length).toBeGreaterThan(10);
  expect(flags.filter((flag) => !known.has(flag))).toEqual([]);
});
