/** Tests that with --allowed-hosts every HTTP port of every role refuses other hosts, and that without it none is refused. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostCheck, isHostPattern } from "../../src/wire/http/host-check.ts";
import { HeaderFields } from "../../src/wire/http1/request.ts";
import { main } from "../program.ts";
import { eventually } from "../server.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-hosts-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a host is compared without its port, in any case, with names, addresses and wildcards", () => {
  const check = hostCheck(["localhost", "*.Example.com", "127.0.0.1", "[::1]"])!;
  const fields = (...hosts: readonly string[]) =>
    new HeaderFields(["Accept", ...hosts.map(() => "Host")], ["*/*", ...hosts]);
  const isAllowed = (host: string | null) => check(host === null ? fields() : fields(host));
  expect(check(fields("localhost", "a.example.com"))).toBe(true);
  expect(check(fields("localhost", "evil.com"))).toBe(false);
  expect(check(fields("evil.com", "localhost"))).toBe(false);
  for (const host of [
    "localhost",
    "LOCALHOST:8000",
    "a.example.com",
    "a.b.example.com:1",
    "127.0.0.1:8000",
    "[::1]:8000",
    "[::1]",
  ])
    expect([host, isAllowed(host)]).toEqual([host, true]);
  for (const host of [
    null,
    "",
    "evil.com",
    "example.com",
    "badexample.com",
    "localhost.evil.com",
    "localhost:80:80",
    "[::2]:1",
    "::1",
    "localhost, evil.com",
    "evil.com#localhost",
  ])
    expect([host, isAllowed(host)]).toEqual([host, false]);
  expect([hostCheck(["*"]), hostCheck(["a", "*"])]).toEqual([null, null]);
  for (const text of ["*", "a", "*.a.b", "::1", "[::1]", "10.0.0.1"])
    expect([text, isHostPattern(text)]).toEqual([text, true]);
  for (const text of ["", "a.*", "*a", "http://a", "a:80", "a b", "a/b"])
    expect([text, isHostPattern(text)]).toEqual([text, false]);
});

async function started(words: string) {
  const file = join(folder, `${Bun.hash(words)}.json`);
  const command = [process.execPath, main, "serve", ...words.split(" "), "--ready-file", file];
  const server = Bun.spawn(command, { stdout: "ignore", stderr: "ignore" });
  await eventually(() => Bun.file(file).exists(), 1500);
  const urls = Object.values(await Bun.file(file).json()).filter((url): url is string => typeof url === "string");
  return { server, urls };
}

/** Returns the status and body of the answer to a request with this Host. */
async function ask(url: string, path: string, host: string) {
  const answer = await fetch(url + path, { headers: { host } });
  return [answer.status, await answer.text()] as const;
}

const OTHER = [400, "Invalid host header"] as const;
const ROLES: Readonly<Record<string, readonly [flags: string, paths: readonly string[], urls: number]>> = {
  vllm: [
    "--port 0 --metrics-port 0 --admin-key k",
    ["/health", "/docs", "/metrics", "/admin/config", "/nothing", "/v1/models"],
    2,
  ],
  "trtllm-serve": ["--role trtllm-serve --port 0", ["/health", "/v1/models", "/nothing"], 1],
  triton: [
    "--role triton --http-port 0 --metrics-port 0 --allow-grpc=false",
    ["/v2/health/live", "/metrics", "/nothing"],
    2,
  ],
};

for (const [role, [flags, paths, count]] of Object.entries(ROLES)) {
  test(`${role}: other hosts get 400 on each port`, async () => {
    const list =
      role === "triton"
        ? "--allowed-hosts good.example --allowed-hosts 127.0.0.1"
        : "--allowed-hosts good.example 127.0.0.1";
    const { server, urls } = await started(`${flags} ${list}`);
    try {
      expect(urls.length).toBe(count);
      for (const url of urls) {
        for (const path of paths) {
          expect([url, path, ...(await ask(url, path, "evil.example"))]).toEqual([url, path, ...OTHER]);
          expect((await ask(url, path, "good.example:1"))[1]).not.toBe(OTHER[1]);
        }
        expect((await ask(url, paths[0]!, new URL(url).host))[0]).toBe(200);
        const refused = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          body: "{}",
          headers: { host: "evil" },
        });
        expect([refused.status, await refused.text()]).toEqual([...OTHER]);
      }
    } finally {
      server.kill();
      await server.exited;
    }
  });
}

/** Returns the status of the answer to a request with these header lines. */
async function statusOf(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const { promise, resolve } = Promise.withResolvers<string>();
  const data = (_: unknown, bytes: Uint8Array) => resolve(Buffer.from(bytes).toString("latin1", 9, 12));
  const socket = await Bun.connect({ hostname, port: Number(port), socket: { data } });
  socket.write(`GET /health HTTP/1.1\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`);
  const status = await promise;
  socket.end();
  return status;
}

test("each Host header of a request must be allowed; without the option several are answered, as by uvicorn", async () => {
  const [good, evil] = ["Host: good.example", "hOST: evil.example"];
  const [checked, open] = await Promise.all([
    started("--port 0 --allowed-hosts good.example"),
    started("--port 0 --seed 1"),
  ]);
  try {
    for (const [lines, status] of [
      [[good], "200"],
      [[good, good], "200"],
      [[good, evil], "400"],
      [[evil, good], "400"],
    ] as const) {
      expect([lines, await statusOf(checked.urls[0]!, lines)]).toEqual([lines, status]);
      expect(await statusOf(open.urls[0]!, lines)).toBe("200");
    }
  } finally {
    checked.server.kill();
    open.server.kill();
    await Promise.all([checked.server.exited, open.server.exited]);
  }
});

test("without the option every host is answered, and HTTP/2 is checked with it", async () => {
  const open = await started("--port 0");
  expect((await ask(open.urls[0]!, "/health", "evil.example"))[0]).toBe(200);
  open.server.kill();
  const { server, urls } = await started("--port 0 --http2-port 0 --allowed-hosts good.example");
  try {
    const statuses: number[] = [];
    for (const authority of ["evil.example", "good.example"]) {
      const session = connect(urls.at(-1)!);
      const stream = session.request({ ":path": "/health", ":authority": authority });
      statuses.push(await new Promise((done) => stream.on("response", (head) => done(head[":status"]!))));
      session.destroy();
    }
    expect(statuses).toEqual([400, 200]);
  } finally {
    server.kill();
    await Promise.all([server.exited, open.server.exited]);
  }
});

test("a value that is not a host is refused at the start", () => {
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "serve", "--allowed-hosts", "http://a"]);
  expect([exitCode, stderr.toString()]).toEqual([
    2,
    expect.stringContaining("--allowed-hosts: takes one or more host names"),
  ]);
});
