/** Tests `understudy kv-check` as a process, against publishers with faults, a server, and ports of other kinds. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WallClock } from "../../../src/base/clock.ts";
import { KV_EVENTS_DEFAULTS } from "../../../src/kv-events/config.ts";
import { decodeKvEvents } from "../../../src/kv-events/decode.ts";
import { kvFaultPlan } from "../../../src/kv-events/fault-plan.ts";
import { KvEventsPublisher } from "../../../src/kv-events/publisher.ts";
import { pacing } from "../../../src/wire/http/deadlines.ts";
import { hosted } from "../../hosted.ts";
import { BlockPool } from "./block-pool.ts";

setDefaultTimeout(60_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const timer = pacing(new WallClock());
const folder = mkdtempSync(join(tmpdir(), "kv-check-"));
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

async function run(...words: string[]) {
  const child = Bun.spawn([process.execPath, main, "kv-check", ...words], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

const LOCAL = "tcp://127.0.0.1:*";

/** Publishes the batches of a pool, 5 ms apart, through faults. The publisher connects to an address without `*`. */
function published(plan: string | null, runs = 40, endpoint = LOCAL) {
  const pool = new BlockPool({ profile: "0.33.0", hasIntHashes: true, blockSize: 16, blocks: 12, buffer: 0 });
  for (let run = 0; run < runs; run++) pool.step({ run, tokens: 50, salt: "", skips: false });
  const source = { ...KV_EVENTS_DEFAULTS, endpoint, replay_endpoint: LOCAL };
  const shared = { profile: "0.33.0", algorithm: "sha256", seed: null, hasIntHashes: true, batchSize: null } as const;
  const faults = plan === null ? null : kvFaultPlan(plan)!;
  const publisher = new KvEventsPublisher({
    ...{ config: { source, ...shared, faults, firstRank: 0 }, rank: 0, timer, log: () => {} },
  });
  open.push(() => publisher.close());
  let at = 0;
  const next = () => {
    const message = pool.messages[at++];
    if (message === undefined) return;
    const { events } = decodeKvEvents(message.frames[2]);
    const known = events.flatMap(({ event }) => (event.type === "unknown" ? [] : [event]));
    publisher.publish({ ts: Date.now() / 1000, events: known, dataParallelRank: 0 });
  };
  const timerId = setInterval(next, 5);
  open.push(() => clearInterval(timerId));
  return publisher.source as { readonly endpoint: string; readonly replay_endpoint: string };
}

test("faults of a publisher are named over sockets, with replay and reports", async () => {
  const { endpoint, replay_endpoint } = published("unfillable@30;unknown-event@35;seed=1", 400);
  const [json, junit] = [join(folder, "a.json"), join(folder, "a.xml")];
  const words = ["--replay", replay_endpoint, "--for", "1500ms", "--num-gpu-blocks", "13"];
  const { code, out } = await run(endpoint, ...words, "--json", json, "--junit", junit);
  // The process may join after the faults; a replay then has the unknown event, and a gap.
  expect(out).toContain("VIOLATED  K03");
  expect(code).toBe(1);
  const report = JSON.parse(readFileSync(json, "utf8"));
  expect(report).toMatchObject({ schema: "understudy-kv-check/1", exitCode: 1 });
  expect(report.targets[0]).toMatchObject({ name: endpoint, hashing: "sha256_cbor, seed 0", topics: [""] });
  expect(report.targets[0].laws).toHaveLength(22);
  expect(readFileSync(junit, "utf8")).toContain('tests="22"');
});

test("two clean publishers are not accused, joined in mid-sequence, and --batches ends the check", async () => {
  const sources = [published(null, 2000), published(null, 2000)];
  const { code, out } = await run(
    ...sources.map(({ endpoint }) => endpoint),
    "--batches",
    "20",
    "--all",
    "--late",
    "60s",
  );
  expect(out.match(/ held +K13/g)?.length ?? 0).toBeLessThanOrEqual(2);
  expect([code, out.match(/0 violated/g)?.length]).toEqual([0, 2]);
});

test("two publishers that connect to kv-check with one topic are named", async () => {
  const free = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  const { port } = free;
  free.stop(true);
  for (const _ of [1, 2]) published(null, 2000, `tcp://127.0.0.1:${port}`);
  const { code, out } = await run(`tcp://*:${port}`, "--for", "800ms");
  expect(out).toContain("violated: K08");
  expect(out).toContain("over another connection");
  expect(code).toBe(1);
});

test("a server's events equal its metrics page", async () => {
  const config = { enable_kv_cache_events: true, endpoint: LOCAL, replay_endpoint: LOCAL };
  const server = await hosted([`--kv-events-config=${JSON.stringify(config)}`]);
  open.push(() => server.stop(0));
  const sources = (await (await fetch(`${server.url}/kv_event_sources`)).json()) as Record<string, typeof config>;
  const { endpoint, replay_endpoint } = sources["0"]!;
  const words = ["--metrics", server.url, "--clean", "--from-start", "--for", "1500ms", "--all"];
  const checked = run(endpoint, "--replay", replay_endpoint, ...words);
  await Bun.sleep(700);
  for (let at = 0; at < 5; at++) {
    const prompt = Array.from({ length: 70 }, (_, token) => (token < 32 ? token : 100 * at + token));
    const body = JSON.stringify({ prompt, max_tokens: 30, temperature: 0 });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body })).text();
  }
  const { code, out } = await checked;
  expect(out).toMatch(/held +K22/);
  expect(out).toMatch(/held +K19/);
  expect(code).toBe(0);
});

test("a port that is HTTP or closed, and wrong words, are one plain sentence each", async () => {
  const http = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
  open.push(() => http.stop(true));
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  open.push(() => silent.stop(true));
  const cases: readonly (readonly [words: readonly string[], text: string])[] = [
    [[`tcp://127.0.0.1:${http.port}`], "the peer does not speak ZMTP 3: no greeting"],
    [[`tcp://127.0.0.1:${silent.port}`, "--timeout", "300ms"], "no ZeroMQ publisher answered within 0.3 s"],
    [["tcp://127.0.0.1:1", "--timeout", "300ms"], "no ZeroMQ publisher answered within 0.3 s"],
    [["http://127.0.0.1:8000"], '"http://127.0.0.1:8000": must be tcp://HOST:PORT or ipc://PATH'],
    [[], "needs an endpoint"],
    [["tcp://127.0.0.1:1", "--frm", "1"], "--frm: unknown flag"],
    [["tcp://127.0.0.1:1", "--replay", "tcp://a:1,tcp://b:2"], "--replay: needs an address per endpoint"],
    [["tcp://127.0.0.1:1", "--only", "K99"], "--only"],
  ];
  const results = await Promise.all(cases.map(([words]) => run(...words)));
  for (const [at, { code, out, err }] of results.entries()) {
    expect(out + err).toContain(cases[at]![1]);
    expect((out + err).trim().split("\n").length).toBeLessThanOrEqual(2);
    expect(code).toBe(2);
  }
});
