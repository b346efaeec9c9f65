/**
 * Disturbs thousands of answers at random and checks that nothing is left behind: laws hold, and gauges, blocks, bytes
 * and open files are as before.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import net from "node:net";
import { mix } from "../../src/base/random.ts";
import { Checker } from "../../src/tools/check/index.ts";
import { posted } from "../conformance/raw-socket.ts";
import { eventually, type Server, sample, serve } from "../server.ts";
import { figure, seed, sized } from "../size.ts";
import { ASKED } from "./cases.ts";
import { anyPlan } from "./plans.ts";

setDefaultTimeout(1_200_000);

const AT_ONCE = 40;
/** A value that does not change for this long counts as left behind. */
const PATIENCE_MS = 2000;
const GAUGES = [
  "vllm:num_requests_running",
  "vllm:num_requests_waiting",
  "vllm:kv_cache_usage_perc",
  "understudy_requests_open",
  "understudy_streams_open",
  "understudy_held_bytes",
];

/** Sends the request and reads the answer until it is silent for too long. Returns true if any byte came. */
function ask(port: number, text: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let came = false;
  const socket = net.connect({ port, host: "127.0.0.1" });
  const patience = setTimeout(() => socket.destroy(), PATIENCE_MS);
  socket.on("connect", () => socket.write(text));
  socket.on("data", () => {
    came = true;
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    clearTimeout(patience);
    resolve(came);
  });
  return promise;
}

const OUTCOME = /^understudy_requests_total\{outcome="(\w+)"\} (\d+)/gm;

const openFiles = ({ pid }: Server) => readdirSync(`/proc/${pid}/fd`).length;

test("after requests with one to three random faults, everything is as before", async () => {
  const count = sized("faults", { sample: 150, whole: 10_000 });
  const flags = "--timing none --served-model-name m --allow-request-orders all --disable-uvicorn-access-log";
  const server = await serve([...flags.split(" "), "--tool-call-parser", "hermes", "--enable-auto-tool-choice"]);
  const port = Number(new URL(server.url).port);
  const checker = new Checker();
  const began = performance.now();
  const scrape = async (rest: boolean) => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    checker.add({ text, atS: (performance.now() - began) / 1000, rest });
  };
  const kinds = Object.values(ASKED);
  const request = (at: number) => {
    const { path, body, order } = kinds[at % kinds.length]!;
    const fault = anyPlan(mix(seed, at), 3);
    const asked = { model: "m", stream: at % 4 !== 0, ...body, understudy: { ...order, fault } };
    return posted(path, asked, ["Connection: close", `X-Request-Id: ${at}`]);
  };
  await ask(port, request(0));
  await eventually(async () => (await sample(server.url, "understudy_requests_open")) === 0);
  await scrape(true);
  const files = openFiles(server);

  let next = 1;
  let answered = 0;
  const work = async () => {
    for (let at = next++; at < count; at = next++) {
      if (await ask(port, request(at))) answered++;
      if (at % 250 === 0) await scrape(false);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const left = async () => {
    const values = await Promise.all(GAUGES.map(async (name) => [name, await sample(server.url, name)] as const));
    return values.filter(([, value]) => value !== 0);
  };
  await eventually(async () => (await left()).length === 0).catch(() => {}); // `left` names the values that remain
  expect(await left()).toEqual([]);
  await scrape(true);
  await scrape(true);
  const { laws } = checker.report();
  expect(laws.filter(({ verdict }) => verdict === "violated").map(({ id, violations }) => [id, violations[0]])).toEqual(
    [],
  );
  expect(laws.filter(({ verdict }) => verdict === "held").length).toBeGreaterThan(40);
  // Connections that a plan refuses may still come, and scrapes use a connection.
  await eventually(() => openFiles(server) <= files + 1);
  expect(answered).toBeGreaterThan(0.5 * count);
  expect(await sample(server.url, "understudy_faults_total")).toBeGreaterThan(0);
  const page = await (await fetch(`${server.url}/metrics`)).text();
  figure("randomRequests", count);
  figure("answered", answered);
  figure("outcomes", Object.fromEntries([...page.matchAll(OUTCOME)].map(([, name, times]) => [name, Number(times)])));
  await server.stop();
});
