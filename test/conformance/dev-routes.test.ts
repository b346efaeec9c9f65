/** Checks that pause, resume and the resets answer like the real server, and have the stated effect, over real sockets. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { exchange, type RawRequest } from "./raw-client.ts";

setDefaultTimeout(30_000);

interface Exchange {
  readonly request: RawRequest;
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
    readonly frames?: readonly string[];
  };
}

interface Case extends Exchange {
  readonly exchanges?: readonly Exchange[];
  readonly background?: Exchange;
}

const folder = new URL("recorded-dev/", import.meta.url);
const names = readdirSync(folder).map((file) => file.slice(0, -".json".length));
const recorded = (name: string): Case => JSON.parse(readFileSync(new URL(`${name}.json`, folder), "utf8"));
const placeholders: { pattern: string; replacement: string }[] = JSON.parse(
  readFileSync(new URL("recorded-streams/placeholders.json", import.meta.url), "utf8"),
);
const clean = (text: string) =>
  placeholders.reduce((all, { pattern, replacement }) => all.replace(new RegExp(pattern, "g"), replacement), text);

/** Flags of the recordings' server. A step takes long enough to pause during it. */
const FLAGS = ["--served-model-name", "golden", "--no-async-scheduling", "--num-gpu-blocks-override", "512"];
const SLOW = ["--timing", "linear:base=4ms,prefill=0ms,decode=0ms", "--max-model-len", "4096"];

let server: HostedServer;
beforeAll(async () => {
  server = await hosted([...FLAGS, ...SLOW], { VLLM_SERVER_DEV_MODE: "1" });
});
afterAll(async () => {
  await server.stop();
});

const portOf = (url: string) => Number(new URL(url).port);
const post = async (path: string) => {
  const { status, body } = await exchange({ method: "POST", path }, portOf(server.url));
  return [status, body];
};
const isPaused = async () => (await (await fetch(`${server.url}/is_paused`)).json()) as { is_paused: boolean };
const generate = (body: object, signal?: AbortSignal) =>
  fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "golden", ...body }),
    ...(signal ? { signal } : {}),
  });
interface Answer {
  readonly choices: readonly { readonly finish_reason: string; readonly text: string }[];
  readonly usage: { readonly completion_tokens: number };
}
const answer = async (response: Promise<Response>) => (await (await response).json()) as Answer;
const metric = (name: string) => sample(server.url, `vllm:${name}{`);
const running = (count: number) => eventually(async () => (await metric("num_requests_running")) === count);
const tokens = () => metric("generation_tokens_total");

/** The recordings' other dialects, and models with other names, are not compared. */
const OTHER = /\/v1\/messages/;

async function expectRecorded({ request, response }: Exchange): Promise<void> {
  const raw = await exchange(request, portOf(server.url));
  const where = `${request.method} ${request.path}`;
  expect(raw.status, where).toBe(response.status);
  for (const name of ["content-type", "server", "vary"])
    expect(raw.headers[name], `${where} ${name}`).toBe(response.headers[name]!);
  if (response.body?.includes('"choices"')) return;
  expect(clean(raw.body), where).toBe(response.body ?? response.frames!.map((frame) => `${frame}\n\n`).join(""));
}

describe("recorded", () => {
  test.each(names.filter((name) => !recorded(name).background))("%s is reproduced", async (name) => {
    const { exchanges, ...alone } = recorded(name);
    const all = (exchanges ?? [alone]).filter(({ request }) => !OTHER.test(request.path));
    expect(all.length).toBeGreaterThan(0);
    for (const exchange of all) await expectRecorded(exchange);
  });

  test("dev-pause-abort-in-stream is reproduced", async () => {
    const { background, ...pause } = recorded("dev-pause-abort-in-stream");
    const request = { ...background!.request, body: { ...(background!.request.body as object), ignore_eos: true } };
    const behind = exchange(request, portOf(server.url));
    await running(1);
    await expectRecorded(pause);
    await expectRecorded(recorded("dev-resume-after"));
    const frames = clean((await behind).body)
      .split("\n\n")
      .slice(0, -1);
    const counts = (frame: string) => frame.replace(/"(prompt|total|completion)_tokens":\d+/g, '"$1_tokens":0');
    expect(frames.slice(-3).map(counts)).toEqual(background!.response.frames!.slice(-3).map(counts));
    const usage = JSON.parse(frames.at(-2)!.slice("data: ".length).replaceAll('"<int>"', "0")).usage;
    // The frames are the role, one per token, the end, the usage and [DONE].
    expect(usage.completion_tokens).toBe(frames.length - 4);
  });

  test("dev-pause-abort-plain is reproduced", async () => {
    const { background, ...pause } = recorded("dev-pause-abort-plain");
    const request = { ...background!.request, body: { ...(background!.request.body as object), ignore_eos: true } };
    const behind = exchange(request, portOf(server.url));
    await running(1);
    await expectRecorded(pause);
    await expectRecorded(recorded("dev-resume-after-plain"));
    const { status, body } = await behind;
    const bare = (text: string) =>
      clean(text)
        .replace(/"content":"(?:[^"\\]|\\.)*"/, '"content":""')
        .replace(/"(prompt|total|completion)_tokens":\d+/g, '"$1_tokens":0');
    expect(status).toBe(background!.response.status);
    expect(bare(body)).toBe(bare(background!.response.body!));
  });
});

describe("queries", () => {
  const wrong = (entry: string, param: string, count = 1) => [
    400,
    JSON.stringify({
      error: {
        message: `${count} validation error${count > 1 ? "s" : ""}:\n${entry}`,
        type: "Bad Request",
        param,
        code: 400,
      },
    }),
  ];
  const boolean = (name: string, text: string) =>
    `  {'type': 'bool_parsing', 'loc': 'query.${name}', 'msg': 'Input should be a valid boolean, unable to interpret input', 'input': '${text}'}`;

  test("an invalid value is refused without effect", async () => {
    expect(await post("/pause?clear_cache=maybe")).toEqual(
      wrong(boolean("clear_cache", "maybe"), "query.clear_cache") as never,
    );
    expect(await post("/reset_prefix_cache?reset_running_requests=2&reset_external=")).toEqual(
      wrong(
        `${boolean("reset_running_requests", "2")}\n${boolean("reset_external", "")}`,
        "query.reset_running_requests",
        2,
      ) as never,
    );
    expect(await isPaused()).toEqual({ is_paused: false });
  });

  test("the last value of a name counts, and unknown names are ignored", async () => {
    expect(await post("/pause?mode=never&mode=wait&clear_cache=FALSE&x=1")).toEqual([200, '{"status":"paused"}']);
    expect(await post("/resume?mode=never")).toEqual([200, '{"status":"resumed"}']);
  });

  test("other methods get 405", async () => {
    const answer = await fetch(`${server.url}/pause`);
    expect([answer.status, answer.headers.get("allow"), await answer.text()]).toEqual([
      405,
      "POST",
      '{"detail":"Method Not Allowed"}',
    ]);
  });
});

describe("effects", () => {
  test("wait: the answer comes when running requests have ended, and new ones are refused meanwhile", async () => {
    const first = answer(generate({ prompt: "Wait", max_tokens: 150, ignore_eos: true }));
    await running(1);
    let answered = false;
    const pause = post("/pause?mode=wait").then((answer) => {
      answered = true;
      return answer;
    });
    await eventually(async () => (await isPaused()).is_paused);
    expect((await generate({ prompt: "Late" })).status).toBe(503);
    expect(answered).toBe(false);
    expect((await first).choices[0]!.finish_reason).toBe("length");
    expect(await pause).toEqual([200, '{"status":"paused"}']);
    expect(await metric("num_requests_running")).toBe(0);
    await post("/resume");
    expect((await answer(generate({ prompt: "Again", max_tokens: 2, ignore_eos: true }))).usage.completion_tokens).toBe(
      2,
    );
  });

  test.each(["true", "false"])(
    "keep, clear_cache=%s: requests pause, new ones queue, and all continue on resume",
    async (clear) => {
      const preemptions = await metric("num_preemptions_total");
      const pending = answer(generate({ prompt: "Keep this", max_tokens: 120, ignore_eos: true, seed: 5 }));
      await running(1);
      await post(`/pause?mode=keep&clear_cache=${clear}`);
      const before = await tokens();
      const two = answer(generate({ prompt: "And that", max_tokens: 3, ignore_eos: true }));
      await Bun.sleep(60);
      expect(await tokens()).toBe(before);
      await post("/resume");
      expect((await two).usage.completion_tokens).toBe(3);
      const { choices, usage } = await pending;
      expect([choices[0]!.finish_reason, usage.completion_tokens]).toEqual(["length", 120]);
      // Clearing the cache takes the blocks of paused requests.
      expect((await metric("num_preemptions_total")) - preemptions).toBe(clear === "true" ? 1 : 0);
      const undisturbed = await answer(generate({ prompt: "Keep this", max_tokens: 120, ignore_eos: true, seed: 5 }));
      expect(choices[0]!.text).toBe(undisturbed.choices[0]!.text);
    },
  );

  test("reset: refused while blocks are in use, unless running requests are preempted", async () => {
    const prompt = Array.from({ length: 65 }, (_, i) => 2000 + i);
    const hits = async () => {
      const before = await metric("prefix_cache_hits_total");
      await answer(generate({ prompt, max_tokens: 1 }));
      return (await metric("prefix_cache_hits_total")) - before;
    };
    await post("/reset_prefix_cache");
    expect([await hits(), await hits()]).toEqual([0, 64]);
    expect(await post("/reset_prefix_cache")).toEqual([200, '{"success":true}']);
    expect(await hits()).toBe(0);

    const long = answer(generate({ prompt: "Long", max_tokens: 200, ignore_eos: true }));
    await running(1);
    expect(await post("/reset_prefix_cache")).toEqual([200, '{"success":false}']);
    expect(await hits()).toBe(64);
    expect(await post("/reset_prefix_cache?reset_running_requests=true")).toEqual([200, '{"success":true}']);
    expect(await hits()).toBe(0);
    expect((await long).usage.completion_tokens).toBe(200);
  });

  test("pausing and resuming twice is allowed, and a client may disconnect during a pause", async () => {
    const leaves = new AbortController();
    const gone = generate({ prompt: "Gone", max_tokens: 1000, ignore_eos: true, stream: true }, leaves.signal);
    await running(1);
    await post("/pause?mode=keep&clear_cache=false");
    leaves.abort();
    await gone.then(
      (response) => response.text().catch(() => ""),
      () => "",
    );
    await running(0);
    expect(await post("/pause?mode=abort")).toEqual([200, '{"status":"paused"}']);
    expect(await post("/resume")).toEqual([200, '{"status":"resumed"}']);
    expect(await post("/resume")).toEqual([200, '{"status":"resumed"}']);
    expect(await isPaused()).toEqual({ is_paused: false });
    expect((await answer(generate({ prompt: "Here", max_tokens: 2 }))).choices).toHaveLength(1);
  });
});

test("sleep pauses the engine until every tag is awake", async () => {
  expect(await post("/sleep?level=1&mode=keep")).toEqual([200, '{"status":"sleeping","level":1}']);
  expect(await isPaused()).toEqual({ is_paused: true });
  let done = false;
  const waits = answer(generate({ prompt: "Here", max_tokens: 2 })).finally(() => {
    done = true;
  });
  expect(await post("/wake_up?tags=weights")).toEqual([200, '{"status":"sleeping","tags":["weights"]}']);
  await Bun.sleep(50);
  expect(done).toBe(false);
  expect(await post("/wake_up?tags=kv_cache")).toEqual([200, '{"status":"awake","tags":["kv_cache"]}']);
  expect((await waits).usage.completion_tokens).toBe(2);
  expect(await isPaused()).toEqual({ is_paused: false });
  const info = (await (await fetch(`${server.url}/server_info?config_format=json`)).json()) as Record<string, object>;
  expect(Object.keys(info)).toEqual(["vllm_config", "vllm_env", "system_env"]);
  expect(info.vllm_config).toMatchObject({ numGpuBlocks: 512 });
});

/**
 * vLLM 0.33, `record_sleep_state` in `v1/metrics/loggers.py`: an engine is awake from the first tag that wakes it, and a
 * pause is not sleep.
 */
test("the sleep gauge follows the level at once, is awake from the first tag on, and exists per engine", async () => {
  const two = await hosted([...FLAGS, ...SLOW, "--data-parallel-size", "2"], { VLLM_SERVER_DEV_MODE: "1" });
  const states = async () => {
    const page = await (await fetch(`${two.url}/metrics`)).text();
    const found = page.matchAll(/^vllm:engine_sleep_state\{engine="(\d)",.*sleep_state="(\w+)"\} (\S+)$/gm);
    return [...found].filter(([, , , value]) => Number(value) === 1).map(([, engine, state]) => `${engine} ${state}`);
  };
  const go = (path: string) => fetch(two.url + path, { method: "POST" });
  const awake = ["0 awake", "1 awake"];
  expect(await states()).toEqual(awake);
  await go("/pause");
  expect(await states()).toEqual(awake);
  await go("/resume");
  for (const [level, wanted] of [
    [1, ["0 weights_offloaded", "1 weights_offloaded"]],
    [2, ["0 discard_all", "1 discard_all"]],
    [0, []],
  ] as const) {
    await go(`/sleep?level=${level}`);
    expect(await states()).toEqual([...wanted]);
    await go("/wake_up?tags=weights");
    expect(await states()).toEqual(awake);
    expect(await (await fetch(`${two.url}/is_sleeping`)).json()).toEqual({ is_sleeping: true });
    await go("/wake_up");
    expect(await states()).toEqual(awake);
    expect(await (await fetch(`${two.url}/is_sleeping`)).json()).toEqual({ is_sleeping: false });
  }
  await go("/sleep?level=9");
  expect(await states()).toEqual(awake);
  await two.stop();
});

test("without the variable, or with 0, the routes are unknown paths", async () => {
  const plain = await hosted(["--timing", "none"], { VLLM_SERVER_DEV_MODE: "0" });
  try {
    for (const path of ["/pause", "/resume", "/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"]) {
      const { status, body } = await exchange({ method: "POST", path }, portOf(plain.url));
      expect([path, status, body]).toEqual([path, 404, '{"detail":"Not Found"}']);
    }
    expect((await fetch(`${plain.url}/is_paused`)).status).toBe(404);
  } finally {
    await plain.stop();
  }
});
