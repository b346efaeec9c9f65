/**
 * Checks that streams pass Debian's nginx token by token, with the proxy settings of its package and with those of
 * docs/how-to/proxies.md. They are compared with a direct client, and with a proxy that buffers streams.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wire } from "../conformance/http-conversation.ts";
import { RawSocket } from "../conformance/raw-socket.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";

setDefaultTimeout(60_000);

const PROXY_PARAMS = "/etc/nginx/proxy_params";
const nginx = ["/usr/sbin/nginx", Bun.which("nginx") ?? ""].find((path) => existsSync(path));
const missing = nginx === undefined || !existsSync(PROXY_PARAMS);
if (missing) console.log("test/clients/proxies.test.ts is skipped: no nginx (on Debian: apt-get install nginx-light)");

/** The server blocks of the page. The test replaces `listen` and `proxy_pass`. */
const DOCUMENTED = /```nginx\n([\s\S]*?)```/.exec(
  readFileSync(new URL("../../docs/how-to/proxies.md", import.meta.url), "utf8"),
)![1]!;
const USUAL = "location / { proxy_pass http://SERVER; include proxy_params; }";
/** A proxy that buffers streams. Debian's nginx.conf has `gzip on`, but a stream is only compressed if its type is listed. */
const BUFFERING = "gzip on; gzip_types text/event-stream; gzip_min_length 0; location / { proxy_pass http://SERVER; }";
const TEMPORARY = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
const TOKENS = 30;

let server: HostedServer;
let folder: string;
let proxy: Bun.Subprocess | undefined;
let ports: { readonly usual: number; readonly documented: number; readonly buffering: number };

async function freePorts(count: number): Promise<number[]> {
  const listeners = Array.from({ length: count }, () => net.createServer().listen(0, "127.0.0.1"));
  await Promise.all(listeners.map((listener) => new Promise((listening) => listener.once("listening", listening))));
  const found = listeners.map((listener) => (listener.address() as net.AddressInfo).port);
  await Promise.all(listeners.map((listener) => new Promise((closed) => listener.close(closed))));
  return found;
}

beforeAll(async () => {
  if (missing && process.env.CI === undefined) return;
  const flags = ["--served-model-name", "m", "--timing", "constant:ttft=50ms,itl=50ms"];
  server = await hosted(flags);
  folder = mkdtempSync(join(tmpdir(), "understudy-nginx-"));
  const [usual, documented, buffering] = (await freePorts(3)) as [number, number, number];
  ports = { usual, documented, buffering };
  const servers = [
    DOCUMENTED.replace("127.0.0.1:8000", "SERVER").replace("127.0.0.1:8080", `127.0.0.1:${documented}`),
    `server { listen 127.0.0.1:${usual}; ${USUAL} }`,
    `server { listen 127.0.0.1:${buffering}; ${BUFFERING} }`,
  ];
  const text = servers
    .join("\n")
    .replaceAll("SERVER", new URL(server.url).host)
    .replaceAll("include proxy_params", `include ${PROXY_PARAMS}`);
  const places = TEMPORARY.map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log; events {} http { access_log off; ${places}\n${text} }`,
  );
  proxy = Bun.spawn([nginx!, "-p", folder, "-e", `${folder}/error.log`, "-c", file], { stderr: "inherit" });
  await eventually(async () => (await fetch(`http://127.0.0.1:${usual}/health`)).ok);
});
afterAll(async () => {
  proxy?.kill();
  await proxy?.exited;
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

function requestText(tokens: number, lines: readonly string[]): string {
  const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: tokens, ignore_eos: true, stream: true });
  const head = ["Host: x", "Content-Type: application/json", `Content-Length: ${body.length}`, ...lines];
  return `POST /v1/completions HTTP/1.1\r\n${head.join("\r\n")}\r\n\r\n${body}`;
}

/** Returns the number of pieces in which a stream arrives, and its text. */
async function arrivals(
  port: number,
  line = "Accept: */*",
): Promise<{ readonly pieces: number; readonly text: string }> {
  const pieces = await wire(requestText(TOKENS, ["Connection: close", line]), port);
  return { pieces: pieces.length, text: pieces.join("") };
}

const events = (text: string) => text.match(/^data: /gm)?.length;

test.skipIf(missing && process.env.CI === undefined)("streams arrive token by token, as without a proxy", async () => {
  const [direct, usual, documented, buffering] = await Promise.all([
    arrivals(Number(new URL(server.url).port)),
    arrivals(ports.usual),
    arrivals(ports.documented),
    arrivals(ports.buffering, "Accept-Encoding: gzip"),
  ]);
  expect(direct.pieces).toBeGreaterThan(TOKENS / 2);
  for (const { pieces, text } of [usual, documented]) {
    expect(text).toContain("Server: nginx");
    expect(events(text)).toBe(events(direct.text)!);
    expect(pieces).toBeGreaterThan(direct.pieces / 2);
  }
  // The count must differ for a proxy that buffers streams.
  expect(buffering.text).toContain("Content-Encoding: gzip");
  expect(buffering.pieces).toBeLessThan(direct.pieces / 2);
});

test.skipIf(missing && process.env.CI === undefined)(
  "a client that disconnects from the proxy is disconnected from the server",
  async () => {
    for (const port of [ports.usual, ports.documented]) {
      const running = () => sample(server.url, "vllm:num_requests_running");
      const client = await RawSocket.connect(port);
      client.write(requestText(2000, []));
      await eventually(() => client.text.includes("data: "));
      expect(await running()).toBe(1);
      client.leave("fin");
      await eventually(async () => (await running()) === 0);
    }
  },
);
