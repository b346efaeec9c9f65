/** Checks that we differ from vLLM 0.33 as docs/reference/differences.md says, and that a test shows every row of it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { differences } from "../../scripts/docs/differences.ts";
import { naturalLength } from "../../src/text/answers/answers.ts";
import { DEFAULT_OUTPUT_LENGTHS } from "../../src/text/answers/length-forms.ts";
import { TOOL_FORMATS } from "../../src/text/grammar/parsers.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";
import { exchange } from "./raw-client.ts";

setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

/** Names of the rows that a test of this file shows. */
const shown: string[] = [];
const row = (name: string, show: () => Promise<void> | void) => {
  shown.push(name);
  test(name, show);
};

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--timing", "none", "--api-key", "a", "--api-key", "b"], {
    VLLM_SERVER_DEV_MODE: "1",
  });
});
afterAll(async () => {
  await server.stop();
});
const portOf = ({ url }: HostedServer) => Number(new URL(url).port);

const headers = { "Content-Type": "application/json", Authorization: "Bearer a" };
async function post(path: string, body: object): Promise<{ status: number; json: Answer }> {
  const response = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as Answer };
}
interface Answer {
  readonly choices: readonly {
    readonly text: string;
    readonly message: { readonly content: string; readonly reasoning: null };
    readonly finish_reason: string;
    readonly logprobs: { readonly token_logprobs: readonly number[]; readonly top_logprobs: readonly object[] };
    readonly prompt_logprobs: readonly (Record<string, { readonly rank: number }> | null)[];
  }[];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
  readonly system_fingerprint: string;
  readonly error: { readonly message: string };
}
const FIXED = { model: "m", max_tokens: 12, ignore_eos: true, seed: 5 };
const complete = (fields: object = {}) => post("/v1/completions", { ...FIXED, prompt: "Hello", ...fields });
const messages = [{ role: "user", content: "Hello" }];
const chat = (fields: object = {}) => post("/v1/chat/completions", { ...FIXED, messages, ...fields });
const texts = ({ json }: { json: Answer }) => json.choices.map(({ text }) => text);
const contents = ({ json }: { json: Answer }) => json.choices.map(({ message }) => message.content);

const named = (row: string) => {
  const { what } = differences.Routes!.find(({ what }) => what.startsWith(row))!;
  return [...what.matchAll(/`(\/[^`]+)`/g)].map(([, path]) => path!);
};
async function unknownPaths(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    for (const method of ["GET", "POST"]) {
      const { status, body } = await exchange({ method, path, headers }, portOf(server));
      expect([path, status, body]).toEqual([path, 404, '{"detail":"Not Found"}']);
    }
  }
}
row("a background response that fails gets the status failed", async () => {
  const kept = await hosted(["--served-model-name", "m", "--timing", "none", "--response-store", "5"]);
  try {
    const script = { sequences: [{ steps: [[5]], finish: "error" }] };
    const ask = { model: "m", input: "Hello", background: true, understudy: { script } };
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(ask) };
    const { id, status } = (await (await fetch(`${kept.url}/v1/responses`, init)).json()) as Record<string, string>;
    expect(status).toBe("queued");
    const now = async () =>
      ((await (await fetch(`${kept.url}/v1/responses/${id}`)).json()) as Answer & { status: string }).status;
    await eventually(async () => (await now()) === "failed");
  } finally {
    await kept.stop();
  }
});
row("an input item that fits no type has fewer errors", async () => {
  const { status, json } = await post("/v1/responses", { model: "m", input: [{ foo: 1 }] });
  expect([status, json.error.message.split("\n")[0]]).toEqual([400, "3 validation errors:"]);
});
row("tools of other kinds are echoed", async () => {
  const tools = [{ type: "web_search_preview" }, { type: "custom", name: "c" }];
  const { json } = await post("/v1/responses", {
    model: "m",
    input: "x",
    max_output_tokens: 1,
    tools,
    tool_choice: "none",
  });
  expect((json as unknown as { tools: { type: string }[] }).tools.map(({ type }) => type)).toEqual([
    "web_search_preview",
    "custom",
  ]);
});
row("without the environment variable no adapter can be loaded by request", () =>
  unknownPaths(["/v1/load_lora_adapter"]),
);
row("routes of dev mode that are not served are unknown paths", async () => {
  const paths = named("Other routes of `VLLM_SERVER_DEV_MODE`");
  expect(paths).toContain("/collective_rpc");
  await unknownPaths(paths);
});

row("/metrics accepts only GET, and similar paths do not exist", async () => {
  const status = async (method: string, path: string) =>
    (await exchange({ method, path, headers }, portOf(server))).status;
  expect([await status("GET", "/metrics"), await status("GET", "/metrics/")]).toEqual([200, 200]);
  expect([await status("POST", "/metrics"), await status("DELETE", "/metrics")]).toEqual([405, 405]);
  expect(await status("GET", "/metricsx")).toBe(404);
});

row("an empty prompt is echoed as an empty text", async () => {
  // An empty text is no prompt with the built-in vocabulary. This model's tokenizer adds a token at the start.
  const folder = new URL("model", import.meta.url).pathname;
  const server = await hosted(["--served-model-name", "m", "--timing", "none", "--tokenizer", folder]);
  const ask = async (echo: boolean) => {
    const body = JSON.stringify({ ...FIXED, prompt: ["", "a"], echo });
    const init = { method: "POST", headers: { "content-type": "application/json" }, body };
    return texts({ json: (await (await fetch(`${server.url}/v1/completions`, init)).json()) as Answer });
  };
  const [plain, echoed] = [await ask(false), await ask(true)];
  await server.stop();
  expect(echoed).toEqual([plain[0]!, `a${plain[1]!}`]);
});

row("a whole float in a tool's schema is an integer in the prompt", async () => {
  const server = await hosted(["--timing", "none", "--tokenizer", new URL("model", import.meta.url).pathname]);
  const tokens = async (minimum: string) => {
    const tool = `{"type":"function","function":{"name":"f","parameters":{"minimum":${minimum}}}}`;
    const body = `{"messages":[{"role":"user","content":"x"}],"tools":[${tool}]}`;
    const init = { method: "POST", headers: { "content-type": "application/json" }, body };
    return ((await (await fetch(`${server.url}/tokenize`, init)).json()) as { tokens: number[] }).tokens;
  };
  const [float, integer, half] = [await tokens("1.0"), await tokens("1"), await tokens("1.5")];
  await server.stop();
  expect(float).toEqual(integer);
  expect(half).not.toEqual(integer);
});

row("the text follows from the seed alone", async () => {
  const [first, ...others] = await Promise.all([
    complete(),
    complete({ temperature: 0 }),
    complete({ temperature: 1.9, prompt: "Something else" }),
  ]);
  for (const other of others) expect(texts(other)).toEqual(texts(first!));
  expect(texts(await complete({ seed: 6 }))).not.toEqual(texts(first!));
  const unseeded = await Promise.all([0, 1].map(() => complete({ seed: null, max_tokens: 40 })));
  expect(texts(unseeded[0]!)).not.toEqual(texts(unseeded[1]!));
});

row("at temperature 0 without a seed the text follows from the prompt", async () => {
  const greedy = (prompt: string | number[], more: object = {}) =>
    complete({ seed: null, temperature: 0, max_tokens: 40, prompt, ...more });
  const [first, again, low, other, swapped, straight] = await Promise.all([
    greedy("Hello"),
    greedy("Hello", { stream: false, top_p: 0.3, priority: 1 }),
    greedy("Hello", { temperature: 0.001 }),
    greedy("Hello!"),
    greedy([5, 6]),
    greedy([6, 5]),
  ]);
  expect(texts(again)).toEqual(texts(first));
  // vLLM raises the value to 0.01, which samples.
  expect(texts(low)).not.toEqual(texts(first));
  expect(texts(other)).not.toEqual(texts(first));
  expect(texts(swapped)).not.toEqual(texts(straight));
  const chats = await Promise.all(
    [0, 1].map(() => chat({ seed: null, temperature: 0, max_tokens: null, ignore_eos: false })),
  );
  expect(contents(chats[0]!)).toEqual(contents(chats[1]!));
});

row("the length of an answer follows from the seed", async () => {
  const drawn = naturalLength(DEFAULT_OUTPUT_LENGTHS, null);
  const ends = (limit: number | null) =>
    Promise.all(
      Array.from({ length: 40 }, async (_, seed) => {
        const { json } = await chat({ max_tokens: limit, ignore_eos: false, seed });
        return [json.choices[0]!.finish_reason, json.usage.completion_tokens];
      }),
    );
  const lengths = Array.from({ length: 40 }, (_, seed) => drawn(seed));
  expect(await ends(null)).toEqual(lengths.map((length) => ["stop", length]));
  expect(await ends(100)).toEqual(lengths.map((length) => (length <= 100 ? ["stop", length] : ["length", 100])));
});

row("the prompt of a chat has 4 more tokens per message and 3 more in all", async () => {
  const tokens = async (answer: Promise<{ json: Answer }>) => (await answer).json.usage.prompt_tokens;
  const hello = await tokens(complete());
  expect(await tokens(chat())).toBe(hello + 4 + 3);
  expect(await tokens(chat({ messages: [...messages, ...messages] }))).toBe(2 * (hello + 4) + 3);
});

const SAMPLING = [
  { frequency_penalty: 2 },
  { presence_penalty: 2 },
  { repetition_penalty: 2 },
  { top_p: 0.1 },
  { top_k: 1 },
  { min_p: 0.9 },
];
row("sampling fields are checked and have no effect", async () => {
  const plain = texts(await complete());
  for (const fields of SAMPLING) expect([fields, texts(await complete(fields))]).toEqual([fields, plain]);
  for (const fields of [{ presence_penalty: 3 }, { top_p: 0 }, { logit_bias: { x: 1 } }, { allowed_token_ids: [] }])
    expect([fields, (await complete(fields)).status]).toEqual([fields, 400]);
});

row("a logit bias forces or forbids a token, or has no effect", async () => {
  const ids = async (fields: object) => {
    const { json } = await complete({ return_token_ids: true, ...fields });
    return (json.choices[0] as unknown as { readonly token_ids: readonly number[] }).token_ids;
  };
  const plain = await ids({});
  expect(await ids({ logit_bias: { [plain[0]!]: -99, 5: 99 } })).toEqual(plain);
  expect(new Set(await ids({ logit_bias: { 5: 100, 7: 120 } }))).toEqual(new Set([5, 7]));
  const without = await ids({ logit_bias: { [plain[3]!]: -100 } });
  expect(without).not.toContain(plain[3]!);
  expect(without.slice(0, 3)).toEqual(plain.slice(0, 3));
});

row("a structured output is a value that fits the schema, by the seed", async () => {
  const schema = (value: object) => ({ type: "json_schema", json_schema: { name: "x", schema: value } });
  const number = { response_format: schema({ type: "integer", minimum: 3, maximum: 90 }) };
  const drawn = await Promise.all([1, 1, 2, 3, 4].map(async (seed) => contents(await chat({ ...number, seed }))[0]!));
  for (const text of drawn) expect(Number(text)).toBeWithin(3, 91);
  expect(drawn[0]).toBe(drawn[1]!);
  expect(new Set(drawn).size).toBeGreaterThan(1);
  const refused = await chat({ response_format: schema({ type: "nonsense" }) });
  expect([refused.status, refused.json.error.message]).toEqual([400, "Grammar error: Invalid type: nonsense"]);
  const long = await chat({ structured_outputs: { regex: "a{70000}" } });
  expect([long.status, long.json.error.message]).toEqual([400, expect.stringMatching(/^understudy: .* 65536/)]);
});

row("tools are refused without a parser, and called by the seed with one", async () => {
  const tools = [{ type: "function", function: { name: "weather" } }];
  const refused = await chat({ tools });
  expect([refused.status, refused.json.error.message]).toEqual([
    400,
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
  ]);
  const [plain, withTools] = [await chat(), await chat({ tools, tool_choice: "none" })];
  expect(contents(withTools)).toEqual(contents(plain));
  expect(withTools.json.usage.prompt_tokens).toBeGreaterThan(plain.json.usage.prompt_tokens);
  // test/conformance/structured.test.ts counts the answers with calls.
  const document = read("docs/how-to/tools.md");
  for (const parser of TOOL_FORMATS) expect(document).toContain(`| \`${parser}\` |`);
});

row("beam search gives independent answers", async () => {
  const beams = texts(await complete({ use_beam_search: true, n: 2 }));
  expect(beams).toEqual(texts(await complete({ n: 2 })));
  expect(beams[0]).not.toBe(beams[1]);
  expect((await complete({ use_beam_search: true, stream: true })).status).toBe(400);
});

row("repetition_detection has no effect", async () => {
  const found = await complete({ repetition_detection: { max_pattern_size: 4, min_count: 2 }, max_tokens: 400 });
  expect(found.json.choices[0]!.finish_reason).toBe("length");
});

row("log probabilities are made up, and repeat for the same request", async () => {
  const ask = () => complete({ logprobs: 3, prompt_logprobs: 3 });
  const [first, again, other] = [await ask(), await ask(), await complete({ logprobs: 3, seed: 6 })];
  const [choice] = first.json.choices;
  expect(choice!.logprobs).toEqual(again.json.choices[0]!.logprobs);
  expect(choice!.logprobs.token_logprobs).not.toEqual(other.json.choices[0]!.logprobs.token_logprobs);
  choice!.logprobs.top_logprobs.forEach((top, i) => {
    expect(Math.max(...Object.values(top))).toBe(choice!.logprobs.token_logprobs[i]!);
  });
});

row("images and suffixes are refused", async () => {
  const picture = { type: "image_url", image_url: { url: "http://127.0.0.1/x.png" } };
  const refused = await chat({ messages: [{ role: "user", content: [picture] }] });
  expect([refused.status, refused.json.error.message]).toEqual([400, "m is not a multimodal model"]);
  expect((await complete({ suffix: "the end" })).status).toBe(400);
});

row("fields for plugins and templates are accepted without effect", async () => {
  const plain = contents(await chat());
  for (const fields of [
    { kv_transfer_params: { do_remote_decode: true } },
    { vllm_xargs: { a: 1 } },
    { documents: [{ title: "x", text: "y" }] },
    { chat_template_kwargs: { enable_thinking: false } },
    { reasoning_effort: "low" },
    { watermarking: true },
  ])
    expect([fields, contents(await chat(fields))]).toEqual([fields, plain]);
  expect((await chat({ vllm_xargs: 1 })).status).toBe(400);
});

row("the fingerprint has vLLM's shape", async () => {
  expect((await complete()).json.system_fingerprint).toMatch(/^vllm-0\.33\.0-[0-9a-f]{8}$/);
});

row("every --api-key counts", async () => {
  const status = async (key: string) =>
    (await fetch(`${server.url}/v1/models`, { headers: { Authorization: `Bearer ${key}` } })).status;
  expect([await status("a"), await status("b"), await status("c")]).toEqual([200, 200, 401]);
});

row("our own paths need the key, too", async () => {
  const status = async (key: string) => {
    const paths = ["/understudy/requests", "/understudy/requests/none", "/understudy/no"];
    const headers = { Authorization: `Bearer ${key}` };
    return Promise.all(paths.map(async (path) => (await fetch(`${server.url}${path}`, { headers })).status));
  };
  expect([await status("b"), await status("c")]).toEqual([
    [200, 404, 404],
    [401, 401, 401],
  ]);
  expect((await fetch(`${server.url}/metrics`)).status).toBe(200);
});

row("an adapter changes the scheduling, but not the text", async () => {
  const flags = [
    "--enable-lora",
    "--lora-modules",
    "tuned=no/such/path",
    "--served-model-name",
    "m",
    "--timing",
    "none",
  ];
  const tuned = await hosted(flags);
  const say = async (model: string) => {
    const body = JSON.stringify({ model, prompt: "Hello", seed: 5, max_tokens: 20 });
    const headers = { "content-type": "application/json" };
    const answer = await (await fetch(`${tuned.url}/v1/completions`, { method: "POST", headers, body })).json();
    return answer as { readonly model: string; readonly choices: readonly { readonly text: string }[] };
  };
  const [plain, adapted] = [await say("m"), await say("tuned")];
  await tuned.stop();
  expect([plain.model, adapted.model]).toEqual(["m", "tuned"]);
  expect(adapted.choices[0]!.text).toBe(plain.choices[0]!.text);
});

test("every row names a test that exists, and every test here has its row", () => {
  const rows = Object.values(differences).flat();
  expect(rows.length).toBeGreaterThan(20);
  const here: string[] = [];
  for (const { what, test: name, file } of rows) {
    if (file === undefined) here.push(name);
    else expect(read(file).replaceAll("row(", "test("), what).toContain(`test(${JSON.stringify(name)}`);
  }
  expect(here.toSorted()).toEqual(shown.toSorted());
});
