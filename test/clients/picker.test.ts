/**
 * Checks that an endpoint picker finds its five quantities on our pages, in each dialect and state, and picks the right
 * server.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";
import { parse, type Reading, read, readLora, saturation, scores } from "./picker.ts";

setDefaultTimeout(30_000);

const BLOCKS = 64;
const FLAGS = [
  ...["--served-model-name", "m", "--timing", "constant:ttft=30ms,itl=10ms", "--disable-uvicorn-access-log"],
  ...["--num-gpu-blocks-override", String(BLOCKS), "--max-model-len", "1000", "--max-num-seqs", "4"],
  ...["--enable-lora", "--max-loras", "1", "--lora-modules", "one=/one", "two=/two"],
];
const ENGINES = { vllm: "/metrics", "triton-tensorrt-llm": "/metrics/trtllm" } as const;

let busy: HostedServer;
let idle: HostedServer;
beforeAll(async () => {
  [busy, idle] = await Promise.all([hosted(FLAGS), hosted(FLAGS)]);
});
afterAll(async () => {
  await Promise.all([busy.stop(), idle.stop()]);
});

const page = async (server: HostedServer, path: string) => (await fetch(server.url + path)).text();
const see = async (server: HostedServer, engine: keyof typeof ENGINES = "vllm"): Promise<Reading> =>
  read(await page(server, ENGINES[engine]), engine);

/** Starts requests that run until `leave` is called. */
function load(server: HostedServer, count: number, model = "m", tokens = 900) {
  const controller = new AbortController();
  const all = Array.from({ length: count }, (_, seed) =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      signal: controller.signal,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, prompt: "Tell me", max_tokens: tokens, ignore_eos: true, stream: true, seed }),
    }).then((answer) => answer.text()),
  );
  return {
    leave: async () => {
      controller.abort();
      await Promise.allSettled(all);
    },
  };
}

test.each(["vllm", "triton-tensorrt-llm"] as const)(
  "%s: the picker reads a cold, loaded, preempting, abandoned and idle server",
  async (engine) => {
    // TensorRT-LLM's backend reports its blocks only after its first request.
    const known = engine === "vllm" ? { blockSize: 16, blocks: BLOCKS } : { blockSize: 0, blocks: 0 };
    expect(await see(idle, engine)).toEqual({ queued: 0, running: 0, kvUsage: 0, ...known });
    const loaded = load(busy, 10);
    const seen: Reading[] = [];
    await eventually(async () => {
      const now = await see(busy, engine);
      seen.push(now);
      // TensorRT-LLM's batcher only counts admitted requests: at most the number that may run.
      return now.kvUsage > 0.8 && (engine === "vllm" ? now.queued >= 6 : now.running === 4);
    });
    await eventually(async () => /vllm:num_preemptions_total\{[^}]*\} [1-9]/.test(await page(busy, "/metrics")));
    seen.push(await see(busy, engine));
    for (const { kvUsage, blockSize, blocks } of seen) {
      expect(kvUsage).toBeWithin(0, 1.0000001);
      if (blocks > 0) expect([blockSize, blocks]).toEqual([16, engine === "vllm" ? BLOCKS : BLOCKS - 1]);
    }
    await loaded.leave();
    await eventually(async () => {
      const { queued, running, kvUsage } = await see(busy, engine);
      return queued === 0 && running === 0 && kvUsage === 0;
    });
  },
);

test("both dialects report the same values at one moment", async () => {
  const loaded = load(busy, 7, "m", 200);
  await eventually(async () => (await see(busy)).running === 4);
  await eventually(async () => {
    const text = await page(busy, "/metrics/all");
    const [vllm, triton] = [read(text, "vllm"), read(text, "triton-tensorrt-llm")];
    return vllm.queued + vllm.running === 7 && vllm.running === 4 && triton.running === 4 && triton.queued === 0;
  });
  await loaded.leave();
});

test("the default scorers pick the idle server, and saturation rises and falls", async () => {
  await eventually(async () => saturation([await see(busy), await see(idle)]) === 0);
  const loaded = load(busy, 20);
  await eventually(async () => (await see(busy)).queued >= 16);
  const pods = [await see(busy), await see(idle)];
  const [ofBusy, ofIdle] = scores(pods) as [number, number];
  expect(ofIdle).toBeGreaterThan(ofBusy + 1);
  expect(saturation(pods)).toBeGreaterThan(1);
  await loaded.leave();
  await eventually(async () => saturation([await see(busy), await see(idle)]) === 0);
});

test("the newest series names the running adapters, at most max_lora of them", async () => {
  const [first, second] = [load(busy, 2, "one"), load(busy, 2, "two")];
  await eventually(async () => {
    const { running, max } = readLora(await page(busy, "/metrics"));
    expect(running.length).toBeLessThanOrEqual(1);
    return max === 1 && running.length === 1;
  });
  await Promise.all([first.leave(), second.leave()]);
  await eventually(async () => readLora(await page(busy, "/metrics")).running.length === 0);
});

test("polls every 50 ms under load never fail, and counters never fall", async () => {
  const loaded = load(busy, 12, "m", 40);
  let before = 0;
  for (let scrape = 0; scrape < 20; scrape++) {
    const text = await page(busy, "/metrics/all");
    expect(read(text, "vllm").running).toBeLessThanOrEqual(4);
    const tokens = parse(text).get("vllm:generation_tokens_total")!.series[0]!.value;
    expect(tokens).toBeGreaterThanOrEqual(before);
    before = tokens;
    await Bun.sleep(50);
  }
  expect(before).toBeGreaterThan(0);
  await loaded.leave();
});

test.each([
  ["a 1", "no newline at the end"],
  ["# TYPE a gauge\n# TYPE a gauge\n", "second TYPE line for a"],
  ["a 1\n# TYPE a gauge\n", "TYPE of a behind its samples"],
  ['a{b="1",b="2"} 1\n', "label b twice"],
  ["a x\n", "no number: x"],
  ["a 1 1700000000\n", "a value and nothing else"],
])("a page that the picker cannot read is refused: %j", (text, why) => {
  expect(() => parse(text)).toThrow(why);
});
