/** Tests that every URL that a server prints or writes has an IPv6 address in brackets, so that clients can use it unchanged. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { hostAndPort, listenUrl } from "../../src/base/listen-url.ts";
import { main } from "../program.ts";
import { eventually } from "../server.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-ipv6-"));
afterAll(() => rmSync(folder, { recursive: true }));

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));

test("an IPv6 address gets one pair of brackets, and others get none", () => {
  const at = (hostname: string) => [hostAndPort({ hostname, port: 1 }), listenUrl({ hostname, port: 1 }, {})];
  expect(at("::")).toEqual(["[::]:1", "https://[::]:1"]);
  expect(at("[fe80::1%eth0]")).toEqual(["[fe80::1%eth0]:1", "https://[fe80::1%eth0]:1"]);
  expect(at("127.0.0.1")).toEqual(["127.0.0.1:1", "https://127.0.0.1:1"]);
});

const SERVERS = {
  vllm: "serve --host ::1 --port 0 --http2-port 0",
  workers: "serve --host ::1 --port 0 --http2-port 0 --workers 2",
  "trtllm-serve": "serve --role trtllm-serve --host ::1 --port 0",
  triton:
    "serve --role triton --http-address ::1 --grpc-address ::1 --metrics-address ::1 --http-port 0 --grpc-port 0 --metrics-port 0",
  proxy: "proxy --to http://127.0.0.1:9 --host ::1 --port 0",
};

for (const [name, words] of Object.entries(SERVERS)) {
  test.if(hasIpv6)(`${name} on ::1 prints and writes brackets`, async () => {
    const file = join(folder, name);
    const server = Bun.spawn([process.execPath, main, ...words.split(" "), "--ready-file", file], { stderr: "pipe" });
    try {
      let output = "";
      void (async () => {
        for await (const chunk of server.stdout) output += Buffer.from(chunk).toString();
      })();
      await eventually(() => /\[::1\]/.test(output), 1500);
      await eventually(() => /"url"/.test(readFileSync(file, "utf8")), 500);
      const urls = Object.entries(JSON.parse(readFileSync(file, "utf8"))).filter(([, url]) => typeof url === "string");
      for (const [, url] of urls) expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/);
      expect(urls.length).toBeGreaterThan(0);
      expect(output.replaceAll("[::1]:", "")).not.toContain("::1");
      if (name === "vllm")
        expect((await fetch(`${JSON.parse(readFileSync(file, "utf8")).url}/health`)).status).toBe(200);
    } finally {
      server.kill();
      await server.exited;
    }
  });
}

test.if(hasIpv6)("an address in use is reported with brackets", async () => {
  const taken = Bun.listen({ hostname: "::1", port: 0, socket: { data() {} } });
  const { stderr } = Bun.spawnSync([process.execPath, main, "serve", "--host", "::1", "--port", String(taken.port)]);
  taken.stop();
  expect(stderr.toString()).toContain(`[::1]:${taken.port} is in use`);
});
