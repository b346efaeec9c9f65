/** Tests `--data-parallel-multi-port-external-lb`: ranks of one process, each with its port, its page and its KV events. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../src/cli/front/free-port.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { configsOfRanks } from "../../../src/cli/serve/serve-ranks.ts";
import { eventually, type Server, sample, serve } from "../../server.ts";

setDefaultTimeout(60_000);

const FLAG = "--data-parallel-multi-port-external-lb";
const started: Server[] = [];
const folders: string[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop().catch(() => {})));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const resolve = (...argv: string[]) => resolveServeConfig(argv, {}, () => "");

test("each rank has the configuration of a server, with the next port", () => {
  const resolved = resolve("--port", "8100", "-dp", "3", FLAG);
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  const configs = configsOfRanks(resolved.config);
  expect(
    configs.map(({ dataParallelSize, listen, deployment }) => [dataParallelSize, listen.port, deployment.firstRank]),
  ).toEqual([
    [1, 8100, 0],
    [1, 8101, 1],
    [1, 8102, 2],
  ]);
});

test.each([
  [[FLAG], `${FLAG}: needs --data-parallel-size from 2 to 16`],
  [[FLAG, "-dp", "17"], `${FLAG}: needs --data-parallel-size from 2 to 16`],
  [[FLAG, "-dp", "2", "--workers", "2"], `--workers: not possible with ${FLAG}`],
  [[FLAG, "-dp", "2", "--port", "65535"], "--port: 65535 plus rank 1 is above port 65535"],
  [
    [FLAG, "-dp", "2", "--role", "vllm-engine"],
    `${FLAG}: not possible with --role vllm-engine, which joins a front end`,
  ],
  [[FLAG, "-dp", "2", "--truth-log", "t"], `--truth-log: not possible with ${FLAG}, because ranks cannot share it`],
])("%j is refused", (argv, error) => {
  expect(resolve(...argv)).toEqual({ error });
});

test("ranks have their own queue, page and events, and end together", async () => {
  const folder = mkdtempSync(join(tmpdir(), "ranks-"));
  folders.push(folder);
  const file = join(folder, "ready.json");
  const events = JSON.stringify({ enable_kv_cache_events: true, endpoint: "tcp://127.0.0.1:*" });
  const flags = [FLAG, "--data-parallel-size=2", "--timing=none", `--kv-events-config=${events}`];
  const server = await serve([...flags, `--ready-file=${file}`]);
  started.push(server);
  await eventually(() => readFileSync(file, "utf8").length > 0);
  const { url, urls } = JSON.parse(readFileSync(file, "utf8")) as { url: string; urls: [string, string] };
  expect(urls).toHaveLength(2);
  expect([urls[0], urls[1] === urls[0]]).toEqual([url, false]);
  expect(server.output()).toContain(`rank 1      ${urls[1]}`);
  for (let at = 0; at < 3; at++) {
    const body = JSON.stringify({ prompt: [1, 2, 3], max_tokens: 1 });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${urls[1]}/v1/completions`, { method: "POST", headers, body })).status).toBe(200);
  }
  await eventually(async () => (await sample(urls[1], 'vllm:prompt_tokens_total{engine="1"')) === 9);
  expect(await sample(urls[0], 'vllm:prompt_tokens_total{engine="0"')).toBe(0);
  expect(await sample(urls[0], 'vllm:prompt_tokens_total{engine="1"')).toBeNaN();
  const sources = await Promise.all(urls.map(async (one) => (await fetch(`${one}/kv_event_sources`)).json()));
  expect(sources.map((source) => Object.keys(source as object))).toEqual([["0"], ["1"]]);
  expect(await server.stop()).toBe(0);
  for (const one of urls) expect(await fetch(one).catch(() => "closed")).toBe("closed");
});

test("if the port of a rank is in use, the start is refused, and no rank is left", async () => {
  // Below the ephemeral range, where no other test takes the port of rank 0 in between.
  const port = (await freePort()) + 1;
  const taken = Bun.serve({ port, hostname: "127.0.0.1", fetch: () => new Response() });
  const why = await serve([FLAG, "-dp", "2", "--port", `${port - 1}`]).catch((error: Error) => error.message);
  await taken.stop(true);
  expect(why).toContain(`--port ${port}: 127.0.0.1:${port} is in use; choose another port`);
  expect(why).toContain("ended with 2");
});
