/** Checks that scheduling options of requests and flags take effect over HTTP. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, type ServerHandle, sample, serve } from "../server.ts";

setDefaultTimeout(30_000);

interface Completion {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
}

const asks =
  (server: () => ServerHandle) =>
  async (body: object, headers: Record<string, string> = {}): Promise<Completion> => {
    const response = await fetch(`${server().url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "m", ...body }),
    });
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    return (await response.json()) as Completion;
  };

/** Starts a server for all tests of a block. */
function served(...flags: string[]): () => HostedServer {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted(["--served-model-name", "m", ...flags]);
  });
  afterAll(async () => {
    await server.stop();
  });
  return () => server;
}

const promptOf = (tokens: number, from: number) => Array.from({ length: tokens }, (_, i) => from + i);

describe.each([
  ["fcfs", ["late", "plain", "header", "negative", "huge"]],
  ["priority", ["negative", "header", "plain", "late", "huge"]],
] as const)("--scheduling-policy %s, one at a time", (policy, order) => {
  const server = served(
    ...["--scheduling-policy", policy, "--max-num-seqs", "1", "--max-num-batched-tokens", "512"],
    ...["--timing", "linear:base=4ms,prefill=0ms,decode=0ms"],
  );
  const ask = asks(server);

  test("waiting requests are served in the order of the policy", async () => {
    const waiting = () => sample(server().url, "vllm:num_requests_waiting{");
    const ended: string[] = [];
    const first = ask({ prompt: "First", max_tokens: 400, ignore_eos: true });
    await eventually(async () => (await sample(server().url, "vllm:num_requests_running{")) === 1);
    const asked: Promise<unknown>[] = [first];
    const queue: [name: string, body: object, headers?: Record<string, string>][] = [
      ["late", { priority: 7 }],
      ["plain", {}, { "X-Vllm-Priority": "soon" }], // not a number, so ignored
      ["header", { priority: 9 }, { "X-Vllm-Priority": " -1 " }], // has priority over the body
      ["negative", { priority: -5 }],
      ["huge", { priority: 2 ** 40 }],
    ];
    for (const [name, body, headers] of queue) {
      asked.push(ask({ prompt: name, max_tokens: 1, ...body }, headers).then(() => ended.push(name)));
      await eventually(async () => (await waiting()) === asked.length - 1);
    }
    expect(ended).toEqual([]);
    await Promise.all(asked);
    expect(ended).toEqual([...order]);
  });
});

describe("the prefix cache", () => {
  const server = served("--timing", "none", "--block-size", "16", "--max-model-len", "4096");
  const ask = asks(server);
  const counts = async () => ({
    queries: await sample(server().url, "vllm:prefix_cache_queries_total{"),
    hits: await sample(server().url, "vllm:prefix_cache_hits_total{"),
  });
  /** Returns the tokens looked up and found for one request. */
  const looked = async (body: object): Promise<[queries: number, hits: number]> => {
    const before = await counts();
    await ask({ max_tokens: 1, ...body });
    const after = await counts();
    return [after.queries - before.queries, after.hits - before.hits];
  };

  test("cache_salt: equal prompts share blocks under the same salt only", async () => {
    const prompt = promptOf(100, 1000);
    expect(await looked({ prompt })).toEqual([100, 0]);
    expect(await looked({ prompt })).toEqual([100, 96]);
    expect(await looked({ prompt, cache_salt: "one" })).toEqual([100, 0]);
    expect(await looked({ prompt, cache_salt: "two" })).toEqual([100, 0]);
    expect(await looked({ prompt, cache_salt: "one" })).toEqual([100, 96]);
    expect(await looked({ prompt, cache_salt: "two" })).toEqual([100, 96]);
    expect(await looked({ prompt })).toEqual([100, 96]);
  });

  test("a salt changes the cached blocks, not the answer", async () => {
    const body = { prompt: promptOf(40, 3000), max_tokens: 12, seed: 3 };
    expect((await ask({ ...body, cache_salt: "a" })).choices[0]!.text).toBe((await ask(body)).choices[0]!.text);
  });

  test("prompt_logprobs: the cache is written but not read, so all prompt tokens are computed", async () => {
    const prompt = promptOf(80, 5000);
    expect(await looked({ prompt, prompt_logprobs: 0 })).toEqual([0, 0]);
    expect(await looked({ prompt, prompt_logprobs: 0 })).toEqual([0, 0]);
    expect(await looked({ prompt, echo: true, logprobs: 0 })).toEqual([0, 0]);
    expect(await looked({ prompt })).toEqual([80, 64]);
  });
});

test("--no-enable-prefix-caching: nothing is looked up", async () => {
  const server = await hosted(["--served-model-name", "m", "--timing", "none", "--no-enable-prefix-caching"]);
  try {
    const ask = asks(() => server);
    for (let i = 0; i < 2; i++) await ask({ prompt: promptOf(80, 9000), max_tokens: 1 });
    expect(await sample(server.url, "vllm:prefix_cache_queries_total{")).toBe(0);
    expect(await sample(server.url, "vllm:prefix_cache_hits_total{")).toBe(0);
  } finally {
    await server.stop();
  }
});

describe("-dp 3", () => {
  const server = served("-dp", "3", "--timing", "linear:base=2ms,prefill=0ms,decode=0ms");
  const ask = asks(server);
  /** Returns the values of each engine, in order of rank. */
  const each = (name: string) =>
    Promise.all([0, 1, 2].map((rank) => sample(server().url, `vllm:${name}{engine="${rank}",model_name="m"}`)));
  const generated = () => each("generation_tokens_total");

  test("the page has every engine, and a request with a rank goes to that engine", async () => {
    expect(await generated()).toEqual([0, 0, 0]);
    await ask({ prompt: "x", max_tokens: 3, ignore_eos: true }, { "X-data-parallel-rank": "2" });
    await ask({ prompt: "x", max_tokens: 5, ignore_eos: true }, { "X-data-parallel-rank": "0" });
    expect(await generated()).toEqual([5, 0, 3]);
  });

  test("a rank that is not a number is ignored, and an unknown rank is refused", async () => {
    await ask({ prompt: "x", max_tokens: 1 }, { "X-data-parallel-rank": "second" });
    const say = (stream: boolean, rank: string) =>
      fetch(`${server().url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", "X-data-parallel-rank": rank },
        body: JSON.stringify({ model: "m", prompt: "x", stream }),
      });
    const plain = await say(false, "3");
    expect([plain.status, await plain.text()]).toEqual([
      400,
      '{"error":{"message":"data_parallel_rank 3 is out of range [0, 3).","type":"BadRequestError","param":null,"code":400}}',
    ]);
    const stream = await say(true, "-1");
    expect([stream.status, await stream.text()]).toEqual([
      200,
      'data: {"error": {"message": "data_parallel_rank -1 is out of range [0, 3).", "type": "BadRequestError", "param": null, "code": 400}}\n\ndata: [DONE]\n\n',
    ]);
  });

  test("a burst and the choices of a request are spread evenly, and ends are counted on their engine", async () => {
    await Bun.sleep(200); // the HTTP layer's view of the engines may be 100 ms old
    const before = await generated();
    const all = Array.from({ length: 12 }, (_, i) => ask({ prompt: `Burst ${i}`, max_tokens: 200, ignore_eos: true }));
    all.push(ask({ prompt: "Choices", n: 3, max_tokens: 200, ignore_eos: true }));
    await eventually(async () => (await each("num_requests_running")).join() === "5,5,5");
    await Promise.all(all);
    const after = await generated();
    expect(after.map((count, rank) => count - before[rank]!)).toEqual([1000, 1000, 1000]);
    expect(await each("num_requests_running")).toEqual([0, 0, 0]);
  });

  test("a busy engine is skipped", async () => {
    const busy = { "X-data-parallel-rank": "1" };
    await Bun.sleep(200);
    const long = [0, 1, 2].map(() => ask({ prompt: "Long", max_tokens: 500, ignore_eos: true }, busy));
    await eventually(async () => (await each("num_requests_running"))[1] === 3);
    const others = [0, 1, 2, 3].map(() => ask({ prompt: "Short", max_tokens: 400, ignore_eos: true }));
    await eventually(async () => (await each("num_requests_running")).join() === "2,3,2");
    await Promise.all([...long, ...others]);
  });

  test("each engine has its own prefix cache", async () => {
    const prompt = promptOf(80, 7000);
    const hits = () => each("prefix_cache_hits_total");
    const before = await hits();
    for (const rank of ["0", "0", "1"]) await ask({ prompt, max_tokens: 1 }, { "X-data-parallel-rank": rank });
    expect((await hits()).map((count, rank) => count - before[rank]!)).toEqual([64, 0, 0]);
  });

  test("all engines pause, resume and reset together, and shut down in order", async () => {
    const server = await serve(
      ["--served-model-name", "m", "--data-parallel-size", "2", "--timing", "linear:base=4ms,prefill=0ms,decode=0ms"],
      { VLLM_SERVER_DEV_MODE: "1" },
    );
    const ask = asks(() => server);
    const post = async (path: string) => (await fetch(`${server.url}${path}`, { method: "POST" })).json();
    const running = (rank: number) => sample(server.url, `vllm:num_requests_running{engine="${rank}"`);
    const four = Array.from({ length: 4 }, (_, i) => ask({ prompt: `Four ${i}`, max_tokens: 5000, ignore_eos: true }));
    await eventually(async () => (await running(0)) + (await running(1)) === 4);
    expect(await post("/reset_prefix_cache")).toEqual({ success: false });
    expect(await post("/reset_prefix_cache?reset_running_requests=true")).toEqual({ success: true });
    expect(await post("/pause")).toEqual({ status: "paused" });
    const reasons = (await Promise.all(four)).map(({ choices }) => choices[0]!.finish_reason);
    expect(reasons).toEqual(["abort", "abort", "abort", "abort"]);
    expect(await (await fetch(`${server.url}/is_paused`)).json()).toEqual({ is_paused: true });
    await post("/resume");
    const open = Array.from({ length: 2 }, (_, i) => ask({ prompt: `Open ${i}`, max_tokens: 5000, ignore_eos: true }));
    // The rank depends on counts that may be 100 ms old.
    await eventually(async () => (await running(0)) + (await running(1)) === 2);
    expect(await server.stop()).toBe(0);
    expect((await Promise.all(open)).map(({ choices }) => choices[0]!.finish_reason)).toEqual(["abort", "abort"]);
    expect(server.output()).toMatch(
      /^INFO \d\d-\d\d \d\d:\d\d:\d\d \[understudy\] ended with 2 requests open at the signal, after /m,
    );
  });
});
