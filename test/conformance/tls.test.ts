/**
 * Checks that the server speaks HTTPS with `--ssl-…` and reports invalid files in one line. The keys and certificates in
 * `tls/` were made for these tests (openssl, EC P-256, valid until 2126).
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import OpenAI from "openai";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { eventually, serve } from "../server.ts";
import { posted } from "./raw-socket.ts";

setDefaultTimeout(30_000);

const file = (name: string) => new URL(`tls/${name}`, import.meta.url).pathname;
const pem = (name: string) => readFileSync(file(name), "utf8");
const ca = pem("ca.pem");
const FLAGS = ["--served-model-name", "m", "--timing", "linear:base=5ms,prefill=0ms,decode=0ms"];
const PAIR = ["--ssl-certfile", file("server.pem"), "--ssl-keyfile", file("server.key")];

const folder = mkdtempSync(join(tmpdir(), "understudy-tls-"));
const both = join(folder, "both.pem");
writeFileSync(both, pem("server.pem") + pem("server.key"));

const portOf = ({ url }: HostedServer) => Number(new URL(url).port);
const get = (url: string, more: object = {}) => fetch(url, { tls: { ca, ...more } });
test("--self-signed-certs makes a certificate for this machine, and no file", async () => {
  const server = await hosted([...FLAGS, "--self-signed-certs"]);
  const seen = Promise.withResolvers<tls.PeerCertificate>();
  const socket = tls.connect({ port: portOf(server), host: "127.0.0.1", rejectUnauthorized: false }, () =>
    seen.resolve(socket.getPeerCertificate()),
  );
  const { subjectaltname, raw } = await seen.promise;
  socket.destroy();
  expect(subjectaltname).toContain("DNS:localhost");
  const certificate = `-----BEGIN CERTIFICATE-----\n${raw.toString("base64")}\n-----END CERTIFICATE-----\n`;
  const answer = await fetch(`${server.url}/health`, { tls: { ca: certificate } });
  expect(answer.status).toBe(200);
  await expect(fetch(`${server.url}/health`)).rejects.toThrow();
  await server.stop();
  expect(resolveServeConfig([...PAIR, "--self-signed-certs"], {}, () => "")).toEqual({
    error: "--ssl-certfile: not possible with --self-signed-certs",
  });
});

afterAll(() => rmSync(folder, { recursive: true }));

describe("a server with a certificate", () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted([...FLAGS, ...PAIR]);
  });
  afterAll(async () => {
    await server.stop();
  });

  test("the URL, the answers and the official client use HTTPS", async () => {
    expect(server.url).toStartWith("https://127.0.0.1:");
    expect(server.output()).toContain(`curl -N ${server.url}/v1/chat/completions`);
    expect((await get(`${server.url}/health`)).status).toBe(200);
    const client = new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, fetchOptions: { tls: { ca } } as object });
    const stream = await client.chat.completions.create({
      model: "m",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 5,
      stream: true,
    });
    let chunks = 0;
    for await (const _ of stream) chunks++;
    expect(chunks).toBeGreaterThan(5);
  });

  test("an untrusted certificate is refused by the client", async () => {
    expect(fetch(`${server.url}/health`)).rejects.toThrow(/certificate/i);
  });

  test("a client that speaks plain HTTP gets nothing", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const socket = net.connect(portOf(server), "127.0.0.1");
    let text = "";
    socket.on("data", (data) => {
      text += data.toString("latin1");
    });
    socket.on("close", () => resolve(text));
    socket.on("error", () => {});
    socket.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await promise).toBe("");
  });

  test.each(["end", "destroy"] as const)("a client's disconnect is noticed: %s", async (method) => {
    const https = { port: portOf(server), host: "127.0.0.1", ca };
    const aborts = async () => Number(/outcome="abort"\S* (\d+)/.exec(await page())?.[1] ?? Number.NaN);
    const page = async () => (await get(`${server.url}/metrics`)).text();
    const before = await aborts();
    const socket = tls.connect(https);
    socket.on("error", () => {});
    const first = new Promise((done) => socket.once("data", done));
    socket.write(
      posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 4000, ignore_eos: true, stream: true }),
    );
    await first;
    socket[method]();
    await eventually(async () => (await aborts()) === before + 1);
    await eventually(async () => /vllm:num_requests_running\{\S* 0/.test(await page()));
  });
});

test("--ssl-cert-reqs accepts only 0 and 2", () => {
  const taken = (value: number) => {
    const argv = [...PAIR, "--ssl-ca-certs", file("ca.pem"), "--ssl-cert-reqs", String(value)];
    return "config" in resolveServeConfig(argv, {}, () => "");
  };
  expect([0, 1, 2, 3].map(taken)).toEqual([true, false, true, false]);
});

test("one file may hold certificate and key, also with several workers", async () => {
  const several = await serve([...FLAGS, "--workers", "2", "--ssl-certfile", both]);
  try {
    expect(several.url).toStartWith("https://");
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => get(`${several.url}/version`, { keepalive: false })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  } finally {
    await several.stop();
  }
});

test("a client certificate is checked if required", async () => {
  const strict = await hosted([...FLAGS, ...PAIR, "--ssl-ca-certs", file("ca.pem"), "--ssl-cert-reqs", "2"]);
  try {
    const ask = (name: string | null) =>
      new Promise<string>((done) => {
        const files = name === null ? {} : { cert: pem(`${name}.pem`), key: pem(`${name}.key`) };
        const socket = tls.connect({ port: portOf(strict), host: "127.0.0.1", ca, ...files });
        let text = "";
        socket.on("data", (data) => {
          text += data.toString("latin1");
        });
        socket.on("close", () => done(text.slice(0, 15)));
        socket.on("error", () => done("refused"));
        socket.write("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      });
    expect(await ask("server")).toBe("HTTP/1.1 200 OK");
    for (const name of [null, "other"]) expect(["", "refused"]).toContain(await ask(name));
  } finally {
    await strict.stop();
  }
});

const notPem = join(folder, "text.pem");
writeFileSync(notPem, "no certificate\n");
const REFUSED: readonly (readonly [flags: string, line: string])[] = [
  [`--ssl-keyfile ${file("server.key")}`, "--ssl-keyfile: needs --ssl-certfile, without which there is no TLS"],
  ["--ssl-cert-reqs 2", "--ssl-cert-reqs: needs --ssl-certfile, without which there is no TLS"],
  [
    `${PAIR.join(" ")} --ssl-cert-reqs 1`,
    '--ssl-cert-reqs: takes 0 (no client certificate) or 2 (one is required), not "1"',
  ],
  [
    `${PAIR.join(" ")} --ssl-cert-reqs 2`,
    "--ssl-cert-reqs: client certificates cannot be checked without --ssl-ca-certs",
  ],
  [`--ssl-certfile ${folder}/none.pem`, `--ssl-certfile ${folder}/none.pem: cannot be read (ENOENT)`],
  [`--ssl-certfile ${folder}`, `--ssl-certfile ${folder}: cannot be read (EISDIR)`],
  [`--ssl-certfile ${notPem}`, `--ssl-certfile ${notPem}: is not a certificate in PEM format`],
  [
    `--ssl-certfile ${file("server.pem")}`,
    `--ssl-certfile ${file("server.pem")}: has a certificate but no private key; set --ssl-keyfile`,
  ],
  [
    `--ssl-certfile ${file("server.pem")} --ssl-keyfile ${notPem}`,
    `--ssl-keyfile ${notPem}: is not a private key in PEM format`,
  ],
  [
    `--ssl-certfile ${file("server.pem")} --ssl-keyfile ${file("encrypted.key")}`,
    `--ssl-keyfile ${file("encrypted.key")}: is encrypted; must not be, because vllm serve has no option for a password`,
  ],
  [
    `--ssl-certfile ${file("server.pem")} --ssl-keyfile ${file("other.key")}`,
    `--ssl-keyfile ${file("other.key")}: does not belong to the certificate`,
  ],
  [
    `${PAIR.join(" ")} --ssl-ca-certs ${notPem} --ssl-cert-reqs 2`,
    `--ssl-ca-certs ${notPem}: is not a certificate in PEM format`,
  ],
];
test.each(REFUSED)("%s is refused with one line and exit code 2", (flags, line) => {
  for (const workers of ["1", "2"]) {
    const words = [process.execPath, main, "serve", "--port", "0", "--workers", workers, ...flags.split(" ")];
    const { exitCode, stderr, stdout } = Bun.spawnSync(words, { env: { ...process.env } });
    expect([exitCode, stderr.toString(), stdout.toString()]).toEqual([2, `understudy serve: ${line}\n`, ""]);
  }
});
