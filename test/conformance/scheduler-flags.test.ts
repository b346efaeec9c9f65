/**
 * Checks that each scheduler option changes the behaviour of a server. Each row starts two servers, without and with the
 * option, and compares their truth logs.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RequestLine } from "../../src/truth/schema.ts";
import { hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";

setDefaultTimeout(60_000);

let folder: string;
let logs = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "understudy-flags-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

/**
 * Limits that are small enough to be reached. Scheduling is synchronous: a request's first token comes from the step that
 * ends its prompt.
 */
const SMALL = {
  "--max-model-len": "256",
  "--max-num-seqs": "4",
  "--max-num-batched-tokens": "64",
  "--num-gpu-blocks-override": "100",
  "--timing": "linear:base=1ms,prefill=0ms,decode=0ms",
};

interface RunOutcome {
  /** The step that produced each prompt's first token, and the cached prompt tokens, by prompt. */
  readonly first: readonly number[];
  readonly cached: readonly number[];
  /** Number of steps until no work is left. */
  readonly steps: number;
}

/**
 * Sends prompts of these lengths at the same time and returns the outcome. With `alike`, prompts of equal length have equal
 * tokens.
 */
async function seen(
  flags: readonly string[],
  prompts: readonly number[],
  maxTokens: number,
  alike: boolean,
): Promise<RunOutcome> {
  const log = join(folder, `${logs++}.jsonl`);
  const server = await hosted(["--served-model-name", "m", ...flags, "--truth-log", log]);
  const prompt = prompts.map((length, i) => Array.from({ length }, (_, k) => 1000 + (alike ? 0 : 500 * i) + k));
  const response = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", prompt, max_tokens: maxTokens, ignore_eos: true }),
  });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  await server.stop();
  const rows = (await Bun.file(log).text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly type: string });
  const requests = (rows.filter(({ type }) => type === "request") as RequestLine[]).toSorted(
    (a, b) => a.order - b.order,
  );
  expect(requests.length).toBe(prompts.length);
  return {
    first: requests.map(({ runs }) => runs[0]![0]),
    cached: requests.map(({ cachedTokens }) => cachedTokens!),
    steps: rows.filter(({ type }) => type === "step").length,
  };
}

interface Row {
  readonly option: string;
  readonly prompts: readonly number[];
  readonly maxTokens?: number;
  readonly alike?: boolean;
  /** Flags of both servers, in addition to SMALL. */
  readonly both?: Readonly<Record<string, string>>;
  readonly without: Partial<RunOutcome>;
  readonly withIt: Partial<RunOutcome>;
}

const rows: Row[] = [
  { option: "--max-num-seqs 2", prompts: [8, 8, 8], without: { first: [1, 1, 1] }, withIt: { first: [1, 1, 4] } },
  {
    option: "--max-num-active-seqs 2",
    prompts: [8, 8, 8],
    without: { first: [1, 1, 1] },
    withIt: { first: [1, 1, 4] },
  },
  { option: "--max-num-batched-tokens 32", prompts: [40, 8], without: { first: [1, 1] }, withIt: { first: [2, 2] } },
  { option: "--max-num-scheduled-tokens 32", prompts: [40, 8], without: { first: [1, 1] }, withIt: { first: [2, 2] } },
  {
    option: "--no-enable-chunked-prefill",
    both: { "--max-num-batched-tokens": "256" },
    prompts: [200, 100, 200],
    without: { first: [1, 2, 2] },
    withIt: { first: [1, 2, 3] },
  },
  {
    option: "--long-prefill-token-threshold 16",
    prompts: [40, 8],
    without: { first: [1, 1] },
    withIt: { first: [3, 1] },
  },
  {
    // The fair share of 64 tokens for two prompts is 32.
    option: "--long-prefill-token-threshold-adaptive",
    both: { "--long-prefill-token-threshold": "16" },
    prompts: [40, 8],
    without: { first: [3, 1] },
    withIt: { first: [2, 1] },
  },
  {
    // The rest of the second prompt waits for four steps.
    option: "--prefill-schedule-interval 4",
    prompts: [60, 10],
    maxTokens: 8,
    without: { first: [1, 2] },
    withIt: { first: [1, 5] },
  },
  {
    // The second prompt needs six blocks. The first uses four, so one of its chunks fits.
    option: "--no-scheduler-reserve-full-isl",
    both: {
      "--max-model-len": "32",
      "--block-size": "4",
      "--num-gpu-blocks-override": "10",
      "--max-num-batched-tokens": "8",
    },
    prompts: [24, 23],
    maxTokens: 2,
    without: { first: [3, 7] },
    withIt: { first: [3, 6] },
  },
  {
    // Ten of 19 blocks are used. Seven more would leave two, but four must stay free.
    option: "--watermark 0.2",
    both: { "--num-gpu-blocks-override": "20", "--max-num-batched-tokens": "300" },
    prompts: [150, 100],
    without: { first: [1, 1] },
    withIt: { first: [1, 4] },
  },
  {
    option: "--num-gpu-blocks-override 17",
    both: { "--max-num-batched-tokens": "512" },
    prompts: [200, 200],
    without: { first: [1, 1] },
    withIt: { first: [1, 4] },
  },
  {
    option: "--block-size 32",
    prompts: [50, 50],
    alike: true,
    without: { cached: [0, 48] },
    withIt: { cached: [0, 32] },
  },
  {
    option: "--no-enable-prefix-caching",
    prompts: [50, 50],
    alike: true,
    without: { cached: [0, 48], first: [1, 1] },
    withIt: { cached: [0, 0], first: [1, 2] },
  },
];

test.each(rows.map((row) => [row.option, row] as const))(
  "%s changes the behaviour of the scheduler",
  async (option, row) => {
    const { prompts, maxTokens = 3, alike = false, both = {}, without, withIt } = row;
    const flags = ["--no-async-scheduling", ...Object.entries({ ...SMALL, ...both }).flat()];
    const [plain, changed] = await Promise.all([
      seen(flags, prompts, maxTokens, alike),
      seen([...flags, ...option.split(" ")], prompts, maxTokens, alike),
    ]);
    expect(plain).toMatchObject(without);
    expect(changed).toMatchObject(withIt);
  },
);

test("--async-scheduling, the default, plans one step ahead, so a busy period ends with empty steps", async () => {
  const flags = Object.entries(SMALL).flat();
  const [none, off, on] = await Promise.all(
    [[], ["--no-async-scheduling"], ["--async-scheduling"]].map((more) => seen([...flags, ...more], [8, 8], 3, false)),
  );
  expect(off!.steps).toBe(4);
  expect(on!.steps).toBe(5);
  expect(none).toEqual(on!);
});

test.each([
  [["--enable-lora"], 1, 1],
  [["--enable-lora", "--max-loras", "2"], 2, 0],
])("%j limits the adapters that run at a time", async (flags, running, deferred) => {
  const modules = ["one", "two"].map((name) => `${name}=adapters/${name}`);
  const timing = ["--timing", "linear:base=4ms,prefill=0ms,decode=0ms"];
  const server = await hosted(["--served-model-name", "m", ...timing, ...flags, "--lora-modules", ...modules]);
  try {
    const ask = async (model: string) => {
      const response = await fetch(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, prompt: "Hello", max_tokens: 150, ignore_eos: true }),
      });
      return ((await response.json()) as { readonly model: string }).model;
    };
    const answers = ["one", "two"].map(ask);
    const gauges = async () => [
      await sample(server.url, "vllm:num_requests_running{"),
      await sample(server.url, 'vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"}'),
    ];
    await eventually(async () => (await gauges()).join() === `${running},${deferred}`);
    expect(await Promise.all(answers)).toEqual(["one", "two"]);
    expect(await gauges()).toEqual([0, 0]);
  } finally {
    await server.stop();
  }
});

test("--enable-lora, cache_salt: a prompt is reused, in whole blocks and parts, only under the same adapter and salt", async () => {
  const line = "--served-model-name m --timing none --max-model-len 256 --enable-prompt-tokens-details";
  const lora = "--enable-lora --max-loras 4 --lora-modules l1=/x l2=/y";
  const flags = `${line} ${lora} --capacity-scheduler-policy GUARANTEED_NO_EVICT`.split(" ");
  const server = await hosted(flags);
  const cached = async (model: string, tokens: number, more: object = {}) => {
    const prompt = Array.from({ length: tokens }, (_, i) => 100 + i);
    const response = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, prompt, max_tokens: 1, ...more }),
    });
    const { usage } = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } | null } };
    return usage.prompt_tokens_details?.cached_tokens ?? 0;
  };
  const adapters: number[] = [];
  for (const model of ["l1", "l1", "l2", "l2", "m", "m"]) adapters.push(await cached(model, 20));
  expect(adapters).toEqual([0, 19, 0, 19, 0, 19]);
  const salts: number[] = [];
  for (const cache_salt of ["s1", "s2", "s2", "s1"]) salts.push(await cached("m", 100, { cache_salt }));
  expect(salts).toEqual([0, 0, 99, 99]);
  await server.stop();
});
