/** Tests `understudy health`: its line and exit code for each kind of server, and for ports of other programs. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted, hostedAs } from "../../hosted.ts";
import { main } from "../../program.ts";

setDefaultTimeout(30_000);

async function health(...words: string[]) {
  const child = Bun.spawn([process.execPath, main, "health", ...words], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  const code = await child.exited;
  expect((out + err).trimEnd().split("\n")).toHaveLength(1);
  return { code, line: (code === 0 ? out : err).trimEnd() };
}

/** Runs `use` with the address of a server that answers each request with `answer`. */
async function withServer<T>(answer: (path: string) => Response | Promise<Response>, use: (url: string) => Promise<T>) {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: ({ url }) => answer(new URL(url).pathname) });
  try {
    return await use(`http://127.0.0.1:${server.port}`);
  } finally {
    await server.stop(true);
  }
}

describe("servers that are ready", () => {
  let servers: Record<"vllm" | "triton" | "trtllm-serve", HostedServer>;
  beforeAll(async () => {
    const [vllm, triton, trtllm] = await Promise.all([
      hosted(["--served-model-name", "small", "--api-key", "secret"]),
      hostedAs(["--role", "triton", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]),
      hosted(["--role", "trtllm-serve", "--served-model-name", "small"]),
    ]);
    servers = { vllm, triton, "trtllm-serve": trtllm };
  });
  afterAll(async () => {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  });

  test.each([
    ["vllm", "/health"],
    ["triton", "/v2/health/ready"],
    ["trtllm-serve", "/health"],
  ] as const)("%s answers at %s", async (role, path) => {
    const { code, line } = await health(servers[role].url);
    expect([code, line]).toEqual([0, `${servers[role].url}: ready (${path} answers 200)`]);
  });

  test("the address may end with /v1, as in clients, or have no scheme", async () => {
    const { url } = servers.vllm;
    expect((await health(`${url}/v1/`)).code).toBe(0);
    expect((await health(url.replace("http://", ""))).code).toBe(0);
  });

  test("--model accepts a served model and rejects any other", async () => {
    const { url } = servers["trtllm-serve"];
    expect(await health(url, "--model", "small")).toEqual({
      code: 0,
      line: `${url}: ready (/health answers 200, serves small)`,
    });
    expect(await health(url, "--model", "large")).toEqual({
      code: 1,
      line: `${url}: does not serve the model "large"; serves small`,
    });
    const triton = servers.triton.url;
    expect((await health(triton, "--model", "echo")).code).toBe(0);
    expect((await health(triton, "--model", "none")).line).toStartWith(
      `${triton}: not ready: /v2/models/none/ready answers 4`,
    );
  });

  test("the list of models needs the server's key, readiness does not", async () => {
    const { url } = servers.vllm;
    expect((await health(url)).code).toBe(0);
    expect(await health(url, "--model", "small")).toEqual({
      code: 1,
      line: `${url}: /v1/models answers 401; give the server's key with --api-key`,
    });
    expect((await health(url, "--model", "small", "--api-key", "secret")).code).toBe(0);
  });
});

describe("servers that are not ready", () => {
  test("503 of vLLM, 400 of Triton and 400 of its OpenAI front end mean not ready", async () => {
    const line = async (paths: Record<string, number>) =>
      withServer(
        (path) => new Response(null, { status: paths[path] ?? 404 }),
        async (url) => {
          const { code, line } = await health(url);
          expect(code).toBe(1);
          return line.replace(url, "URL");
        },
      );
    expect(await line({ "/health": 503 })).toBe(
      "URL: not ready: /health, vLLM's and trtllm-serve's route, answers 503",
    );
    expect(await line({ "/v2/health/ready": 400 })).toBe(
      "URL: not ready: /v2/health/ready, Triton's route, answers 400",
    );
    expect(await line({ "/health/ready": 400 })).toBe(
      "URL: not ready: /health/ready, the route of Triton's OpenAI front end, answers 400",
    );
  });

  test("--wait repeats the request until the server is ready", async () => {
    let requests = 0;
    await withServer(
      () => new Response(null, { status: ++requests < 4 ? 503 : 200 }),
      async (url) => expect((await health(url, "--wait", "20s")).code).toBe(0),
    );
    expect(requests).toBe(4);
  });

  test("--wait ends with the last reason", async () => {
    const { code, line } = await health("http://127.0.0.1:1", "--wait", "300ms");
    expect([code, line]).toEqual([1, "http://127.0.0.1:1: nothing listens there (ECONNREFUSED)"]);
  });
});

describe("ports of something else", () => {
  test("a page of HTML on every path is not readiness", async () => {
    const page = "<!doctype html>\n<title>\u001b[31mLog in</title>";
    await withServer(
      () => new Response(page, { headers: { "content-type": "text/html" } }),
      async (url) => {
        const { code, line } = await health(url);
        expect(code).toBe(1);
        expect(line).toStartWith(
          `${url}: not a vLLM, a Triton or a trtllm-serve: /health answers 200 with "<!doctype html> <title>`,
        );
        expect(line).not.toContain("\u001b");
      },
    );
  });

  test("a server that never answers is given up after --timeout", async () => {
    await withServer(
      () => new Promise<Response>(() => {}),
      async (url) => {
        expect(await health(url, "--timeout", "200ms")).toEqual({
          code: 1,
          line: `${url}: no answer within 0.2 s`,
        });
      },
    );
  });

  test("a server that never ends its answer takes --timeout", async () => {
    await withServer(
      () => new Response(new ReadableStream({ start: (body) => body.enqueue("o") })),
      async (url) => {
        expect(await health(url, "--timeout", "200ms")).toEqual({ code: 1, line: `${url}: no answer within 0.2 s` });
      },
    );
  });

  test("a port of HTTP/2", async () => {
    const server = await hosted(["--http2-port", "0"]);
    try {
      const { code, line } = await health(server.http2Url!);
      expect(code).toBe(1);
      expect(line).toContain("; a gRPC or HTTP/2 port? Give the HTTP port");
    } finally {
      await server.stop();
    }
  });

  test("a server that never answers ends --wait in time", async () => {
    await withServer(
      () => new Promise<Response>(() => {}),
      async (url) => {
        const { code, line } = await health(url, "--wait", "400ms");
        expect(code).toBe(1);
        expect(line).toMatch(/: no answer within 0.[1-4] s$/);
      },
    );
  });

  test("a gRPC port is recognized", async () => {
    // An HTTP/2 server answers bytes other than the preface with an empty SETTINGS frame and GOAWAY (PROTOCOL_ERROR).
    const frames = new Uint8Array([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    const port = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (socket) => void socket.end(frames) },
    });
    const url = `http://127.0.0.1:${port.port}`;
    const { code, line } = await health(url);
    port.stop(true);
    expect([code, line]).toEqual([
      1,
      `${url}: the answer is not HTTP/1.1 (Malformed_HTTP_Response); a gRPC or HTTP/2 port? Give the HTTP port`,
    ]);
  });

  test("an untrusted certificate and a wrong scheme are reported", async () => {
    const server = await hosted(["--self-signed-certs"]);
    try {
      const untrusted = await health(server.url);
      expect(untrusted.code).toBe(1);
      expect(untrusted.line).toMatch(/: its certificate is not trusted \(\w+\); --ssl-ca-certs FILE or --insecure$/);
      expect((await health(server.url, "--insecure")).code).toBe(0);
      const plain = server.url.replace("https:", "http:");
      const other = await health(plain);
      expect(other.code).toBe(1);
      expect(other.line).toStartWith(`${plain}: the port speaks https (`);
    } finally {
      await server.stop();
    }
  });
});

test.each([
  [["ftp://host"], '"ftp://host": must be an http or https URL, as in http://127.0.0.1:8000'],
  [["http://a", "http://b"], "takes one URL, not 2 (understudy health --help)"],
  [["--wait", "long"], '--wait: takes a duration up to 24h, as in 500ms, 30s or 2m, not "long"'],
  [["--port", "1"], "--port: unknown flag (understudy health --help lists the options)"],
  [["--ssl-ca-certs", "/none"], "--ssl-ca-certs /none: cannot be read (ENOENT)"],
])("%j is refused with exit code 2", async (words, why) => {
  expect(await health(...words)).toEqual({ code: 2, line: `understudy health: ${why}` });
});
