/** Tests that commands ask servers of this machine directly, and other servers through the proxy of the environment. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";

setDefaultTimeout(30_000);

/** A host that no name server knows. */
const ELSEWHERE = "http://llm.invalid";
/** A port on which nothing listens. */
const CLOSED = "http://127.0.0.1:1";

let server: HostedServer;
/** A proxy that answers each request itself, and the targets of its requests. */
let proxy: Bun.Server<undefined>;
const proxied: string[] = [];
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--timing", "none"]);
  proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => {
      proxied.push(url);
      return new Response(null);
    },
  });
});
afterAll(async () => {
  await Promise.all([server.stop(), proxy.stop(true)]);
});

async function run(words: readonly string[], env: Readonly<Record<string, string>>) {
  const child = Bun.spawn([process.execPath, main, ...words], {
    env: { ...process.env, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, text: out + err };
}

test.each([
  ["health", ["health", "URL"]],
  ["load", ["load", "--url", "URL", "--num-prompts", "2"]],
  ["truth", ["truth", "URL"]],
  ["check", ["check", "URL/metrics"]],
] as const)("%s needs no proxy for a server of this machine", async (_, words) => {
  const given = words.map((word) => word.replace("URL", server.url));
  const { code, text } = await run(given, { HTTP_PROXY: CLOSED, http_proxy: CLOSED, NO_PROXY: "elsewhere.test" });
  expect([code, text]).toEqual([0, expect.any(String)]);
});

test("health asks another machine through the proxy, unless NO_PROXY names it", async () => {
  const HTTP_PROXY = `http://127.0.0.1:${proxy.port}`;
  expect((await run(["health", ELSEWHERE], { HTTP_PROXY })).code).toBe(0);
  expect(proxied).toEqual([`${ELSEWHERE}/health`]);
  for (const name of ["NO_PROXY", "no_proxy"]) {
    const { code, text } = await run(["health", ELSEWHERE], { HTTP_PROXY, [name]: "llm.invalid" });
    expect([code, text]).toEqual([1, expect.stringContaining(`${ELSEWHERE}: no answer`)]);
  }
});

test("load never asks through a proxy, because the requests that it measures do not", async () => {
  const { code, text } = await run(["load", "--url", ELSEWHERE], { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` });
  expect([code, text]).toEqual([2, expect.stringContaining("cannot reach")]);
  expect(proxied).toHaveLength(1);
});
