/**
 * Checks that each request field has the effect of its row. Pairs of requests to a live server, with and without the field,
 * must differ as stated or not at all. The refused value gets the error of docs/reference/parameters.md.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { FIELDS, namesOf, PATHS, PLAIN, refusalOf } from "../../scripts/docs/parameters.ts";
import type { Parameter } from "../../src/servers/openai/docs/parameter.ts";
import { type ChatKind, type openaiParameters, parameterOf } from "../../src/servers/vllm/openai/parameters.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { exampleOf } from "./parameter-examples.ts";

setDefaultTimeout(30_000);

const FLAGS = ["--served-model-name", "m", "--timing", "none", "--enable-prompt-tokens-details", "--block-size", "16"];
const LORA = ["--enable-lora", "--lora-modules", "tuned=no/such/path", "--max-model-len", "4096"];
let server: HostedServer;
beforeAll(async () => {
  server = await hosted([...FLAGS, ...LORA]);
});
afterAll(() => server.stop());

type Name = keyof typeof openaiParameters;
interface Choice {
  readonly text: string;
  readonly message: { readonly role: string; readonly content: string };
  readonly finish_reason: string;
  readonly stop_reason: string | number | null;
  readonly logprobs: {
    readonly content: readonly { readonly token: string; readonly top_logprobs: readonly { token: string }[] }[];
    readonly tokens: readonly string[];
    readonly top_logprobs: readonly Record<string, number>[];
  } | null;
  readonly token_ids: readonly number[] | null;
  readonly prompt_token_ids: readonly number[] | null;
  readonly prompt_logprobs: readonly unknown[] | null;
}
interface Answer {
  readonly status: number;
  readonly raw: string;
  readonly json: {
    readonly id: string;
    readonly model: string;
    readonly choices: readonly Choice[];
    readonly prompt_token_ids: readonly number[] | null;
    readonly prompt_text: string | null;
    readonly prompt_logprobs: readonly unknown[] | null;
    readonly usage: {
      readonly prompt_tokens: number;
      readonly completion_tokens: number;
      readonly prompt_tokens_details: { readonly cached_tokens: number };
    };
  };
  /** Chunks of a stream without the final `[DONE]`. */
  readonly chunks: readonly { readonly choices: readonly unknown[]; readonly usage?: object }[];
}

async function ask(kind: ChatKind, fields: object): Promise<Answer> {
  const response = await fetch(server.url + PATHS[kind], {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...PLAIN[kind], ...fields }),
  });
  const raw = await response.text();
  const chunks = raw.startsWith("data: ")
    ? raw
        .trimEnd()
        .split("\n\n")
        .slice(0, -1)
        .map((event) => JSON.parse(event.slice(6)))
    : [];
  return { status: response.status, raw, json: chunks.length > 0 ? null : JSON.parse(raw), chunks };
}

/** Removes the parts that may differ between two answers to the same request. */
function same(raw: string): string {
  return raw
    .replaceAll(/"id":"[^"]*"/g, '"id":""')
    .replaceAll(/"created":\d+/g, '"created":0')
    .replaceAll(/"prompt_tokens_details":\{[^}]*\}/g, '"prompt_tokens_details":{}');
}

const textOf = ({ json }: Answer) => json.choices.map((choice) => choice.text ?? choice.message.content).join("|");
const idsOf = ({ json }: Answer) => json.choices[0]!.token_ids!;
const promptOf = ({ json }: Answer) => json.prompt_token_ids ?? json.choices[0]!.prompt_token_ids!;

/** Checks the answers without and with the field. `own` sends further requests to the same route with other fields. */
type AnswerCheck = (without: Answer, with_: Answer, ask: (fields: object) => Promise<Answer>) => void | Promise<void>;
/** The check of a row, or the file and name of a test elsewhere. */
type Evidence = AnswerCheck | readonly [file: string, test: string];

const refusalOnly: AnswerCheck = () => {}; // the refusal is tested for every row
const limited: AnswerCheck = (without, with_) => {
  expect(without.json.usage.completion_tokens).toBe(12);
  expect([with_.json.usage.completion_tokens, with_.json.choices[0]!.finish_reason]).toEqual([3, "length"]);
  expect(textOf(without)).toStartWith(textOf(with_));
};
const otherPrompt: AnswerCheck = (without, with_) => {
  expect(with_.json.usage.prompt_tokens).not.toBe(without.json.usage.prompt_tokens);
};

const LOOKS: Readonly<Partial<Record<Name, Evidence>>> = {
  messages: otherPrompt,
  prompt: (without, with_) => {
    expect([without.json.choices.length, with_.json.choices.length]).toEqual([1, 2]);
  },
  model: async (without, _, ask) => {
    expect([without.json.model, (await ask({ model: null })).json.model]).toEqual(["m", "m"]);
    expect((await ask({ model: "tuned" })).json.model).toBe("tuned");
  },
  echo: (without, with_) => {
    const front = with_.json.choices[0]!.message === undefined ? "Hello there, how are you today?" : "So";
    expect(textOf(with_)).toBe(front + textOf(without));
  },
  logit_bias: async (without, with_, ask) => {
    expect(textOf(with_)).not.toBe(textOf(without));
    expect(new Set(idsOf(await ask({ logit_bias: { 5: 100 }, return_token_ids: true })))).toEqual(new Set([5]));
    const [first] = idsOf(await ask({ return_token_ids: true }));
    const barred = await ask({ logit_bias: { [first!]: -100 }, return_token_ids: true });
    expect(idsOf(barred)).not.toContain(first!);
    expect(textOf(await ask({ logit_bias: { [first!]: -99.5, 5: 99.5 } }))).toBe(textOf(without));
  },
  allowed_token_ids: async (_, __, ask) => {
    const ids = idsOf(await ask({ allowed_token_ids: [5, 7], max_tokens: 40, return_token_ids: true }));
    expect([ids.length, new Set(ids)]).toEqual([40, new Set([5, 7])]);
  },
  bad_words: async (without, with_, ask) => {
    const word = /\w+/.exec(textOf(without))![0];
    expect(textOf(await ask({ bad_words: [word] }))).not.toMatch(new RegExp(`(^| )${word}( |$)`));
    expect(textOf(with_)).not.toContain(" river");
    const [first, second] = textOf(without).split(" ");
    const pair = textOf(await ask({ bad_words: [`${first} ${second}`] }));
    expect(pair).toStartWith(`${first} `);
    expect(pair).not.toContain(`${first} ${second}`);
    const many = Array.from({ length: 129 }, (_, i) => `w${i}`);
    expect((await ask({ bad_words: many })).raw).toContain("Too many bad words after tokenization: 129");
  },
  logprobs: (without, with_) => {
    expect(without.json.choices[0]!.logprobs).toBeNull();
    const { content, tokens } = with_.json.choices[0]!.logprobs!;
    expect((content ?? tokens).length).toBe(12);
  },
  top_logprobs: (without, with_) => {
    expect(without.json.choices[0]!.logprobs!.content[0]!.top_logprobs).toEqual([]);
    for (const { token, top_logprobs } of with_.json.choices[0]!.logprobs!.content) {
      expect(top_logprobs.length).toBe(3);
      expect(top_logprobs[0]!.token).toBe(token);
    }
  },
  logprob_token_ids: async (_, with_, ask) => {
    const { content, top_logprobs } = with_.json.choices[0]!.logprobs!;
    const candidates =
      content?.map((entry) => entry.top_logprobs.length) ?? top_logprobs.map((top) => Object.keys(top).length);
    expect(candidates).toEqual(Array(12).fill(3));
    const fields = { logprobs: content ? true : 1, logprob_token_ids: [5, 7], return_tokens_as_token_ids: true };
    const named = (await ask(fields)).json.choices[0]!.logprobs!;
    const first = content
      ? named.content[0]!.top_logprobs.map(({ token }) => token)
      : Object.keys(named.top_logprobs[0]!);
    expect(first.slice(1)).toEqual(["token_id:5", "token_id:7"]);
  },
  max_tokens: limited,
  max_completion_tokens: limited,
  n: (without, with_) => {
    expect(with_.json.choices.length).toBe(2);
    expect(with_.json.usage.completion_tokens).toBe(24);
    const [first, second] = textOf(with_).split("|");
    expect(first).toBe(textOf(without));
    expect(second).not.toBe(first);
  },
  seed: async (without, with_, ask) => {
    expect(textOf(with_)).not.toBe(textOf(without));
    expect(textOf(await ask({ seed: 6 }))).toBe(textOf(with_));
  },
  stop: (without, with_) => {
    const [choice] = with_.json.choices;
    expect([choice!.finish_reason, choice!.stop_reason]).toEqual(["stop", " "]);
    expect(textOf(with_)).toBe(textOf(without).split(" ")[0]!);
  },
  include_stop_str_in_output: (without, with_) => {
    expect(textOf(with_)).toBe(`${textOf(without)} `);
  },
  min_tokens: (without, with_) => {
    expect(without.json.usage.completion_tokens).toBeLessThan(8);
    expect(with_.json.usage.completion_tokens).toBeGreaterThanOrEqual(8);
  },
  stop_token_ids: async (_, __, ask) => {
    const ids = idsOf(await ask({ return_token_ids: true }));
    const stopped = await ask({ stop_token_ids: [ids[4]!], return_token_ids: true });
    expect([stopped.json.choices[0]!.stop_reason, idsOf(stopped)]).toEqual([ids[4]!, ids.slice(0, 5)]);
  },
  ignore_eos: async (without, with_, ask) => {
    expect(without.json.choices[0]!.finish_reason).toBe("stop");
    expect(with_.json.choices[0]!.finish_reason).toBe("length");
    const long = await ask({ ignore_eos: true, max_tokens: 600 });
    expect(long.json.usage.completion_tokens).toBe(600);
  },
  skip_special_tokens: (without, with_) => {
    expect(textOf(without)).toBe("");
    expect(textOf(with_)).toStartWith("<|");
  },
  stream: (_, with_) => {
    expect(with_.raw).toEndWith("data: [DONE]\n\n");
    expect(with_.chunks.length).toBeGreaterThanOrEqual(12);
  },
  stream_options: async (without, with_, ask) => {
    expect(without.chunks.some(({ usage }) => usage)).toBe(false);
    expect(with_.chunks.at(-1)!.choices).toEqual([]);
    expect(with_.chunks.filter(({ usage }) => usage).length).toBe(1);
    const options = { include_usage: true, continuous_usage_stats: true };
    const all = (await ask({ stream: true, stream_options: options })).chunks;
    expect(all.every(({ usage }) => usage)).toBe(true);
  },
  stream_interval: (without, with_) => {
    // Chunks are the first token, then every four tokens, and the last one.
    expect(with_.chunks.length).toBeLessThan(without.chunks.length - 6);
  },
  temperature: async (without, with_, ask) => {
    expect(textOf(with_)).toBe(textOf(await ask({ temperature: 0, seed: null })));
    expect(textOf(with_)).not.toBe(textOf(without));
    expect(textOf(await ask({ temperature: 1.5 }))).toBe(textOf(await ask({})));
  },
  tools: otherPrompt,
  tool_choice: (without, with_) => {
    expect([without.status, with_.status]).toEqual([400, 200]);
  },
  truncate_prompt_tokens: (_, with_) => {
    expect(with_.json.usage.prompt_tokens).toBe(2);
  },
  truncation_side: async (without, with_, ask) => {
    const all = promptOf(await ask({ return_token_ids: true }));
    expect([promptOf(without), promptOf(with_)]).toEqual([all.slice(-2), all.slice(0, 2)]);
  },
  prompt_logprobs: (without, with_) => {
    const shown = ({ json }: Answer) => json.prompt_logprobs ?? json.choices[0]!.prompt_logprobs ?? null;
    expect(shown(without)).toBeNull();
    expect(shown(with_)!.length).toBe(with_.json.usage.prompt_tokens);
  },
  add_generation_prompt: (without, with_) => {
    expect(with_.json.usage.prompt_tokens).toBeLessThan(without.json.usage.prompt_tokens);
    expect([without, with_].map(({ json }) => json.choices[0]!.message.role)).toEqual(["assistant", "user"]);
  },
  continue_final_message: (without, with_) => {
    expect(with_.json.usage.prompt_tokens).toBe(without.json.usage.prompt_tokens - 1);
  },
  return_token_ids: (without, with_) => {
    expect(without.json.choices[0]!.token_ids).toBeNull();
    expect([idsOf(with_).length, promptOf(with_).length]).toEqual([12, with_.json.usage.prompt_tokens]);
  },
  return_weight_versions: (without, with_) => {
    expect(without.raw).toContain('"weight_versions":null');
    expect(with_.raw).toMatch(/"weight_versions":\[\{[^}]*\}\]/);
    expect(textOf(with_)).toBe(textOf(without));
  },
  return_tokens_as_token_ids: (without, with_) => {
    expect(without.raw).not.toContain("token_id:");
    expect(with_.raw.match(/"token_id:\d+"/g)!.length).toBeGreaterThanOrEqual(12);
  },
  return_prompt_text: (without, with_) => {
    expect(without.json.prompt_text).toBeNull();
    expect(with_.json.prompt_text).toContain("Hello there, how are you today?");
  },
  request_id: (_, with_) => {
    expect(with_.json.id).toMatch(/^(chatcmpl|cmpl)-mine$/);
  },
  cache_salt: async (_, __, ask) => {
    const content = "one two three four five six ".repeat(10);
    const long = { prompt: content, messages: [{ role: "user", content }] };
    const cached = async (cache_salt: string) =>
      (await ask({ ...long, cache_salt })).json.usage.prompt_tokens_details.cached_tokens;
    const salt = "pepper";
    expect(await cached(salt)).toBe(0);
    expect(await cached(salt)).toBeGreaterThanOrEqual(32);
    expect(await cached(`${salt}, other`)).toBe(0);
  },
  priority: ["test/conformance/options.test.ts", "waiting requests are served in the order of the policy"],
  repetition_detection: (without, with_) => {
    expect([without.json.usage.completion_tokens, without.json.choices[0]!.finish_reason]).toEqual([12, "length"]);
    const [choice] = with_.json.choices;
    expect([choice!.finish_reason, choice!.stop_reason]).toEqual(["repetition", "repetition_detected"]);
    expect(with_.json.usage.completion_tokens).toBe(3);
  },
  response_format: async (_, with_, ask) => {
    expect(typeof JSON.parse(textOf(with_))).toBe("object");
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const asked = await ask({ response_format: { type: "json_schema", json_schema: { name: "x", schema } } });
    expect(JSON.parse(textOf(asked)).n).toBeInteger();
  },
  structured_outputs: async (_, with_, ask) => {
    expect(textOf(with_)).toMatch(/^[0-9]+$/);
    expect(["yes", "no"]).toContain(textOf(await ask({ structured_outputs: { choice: ["yes", "no"] } })));
  },
  thinking_token_budget: [
    "test/conformance/dialects.test.ts",
    "the thinking and its length follow from the seed, and can be ordered or limited",
  ],
  include_reasoning: [
    "test/servers/openai/tool-calls/reasoning.test.ts",
    "include_reasoning false shows only the content",
  ],
  chat_template: refusalOnly,
  media_io_kwargs: refusalOnly,
  mm_processor_kwargs: refusalOnly,
  suffix: refusalOnly,
  prompt_embeds: refusalOnly,
};

const rows = (["chat", "completions"] as const).flatMap((kind) =>
  namesOf(kind).map((name): [ChatKind, Name, Parameter] => [kind, name, parameterOf(kind, name)]),
);

test.each(rows)("%s: the field %s has its documented effect and refusal", async (kind, name, row) => {
  const { accepted, refused, others = {} } = exampleOf(kind, name);
  if (refused !== undefined) {
    const refusal = refusalOf(kind, name);
    expect(refusal).not.toBeNull();
    const answer = await ask(kind, { [name]: refused });
    expect([answer.status, answer.raw]).toEqual([refusal!.status, refusal!.body]);
  }
  const [without, with_] = [await ask(kind, others), await ask(kind, { ...others, [name]: accepted })];
  expect([name, with_.status]).toEqual([name, 200]);
  const look = LOOKS[name];
  if (!("seen" in row.effect)) {
    expect(look).toBeUndefined();
    expect(same(with_.raw)).toBe(same(without.raw));
  } else if (Array.isArray(look)) {
    expect(await Bun.file(new URL(`../../${look[0]}`, import.meta.url)).text()).toContain(`test("${look[1]}"`);
  } else {
    await (look as AnswerCheck)(without, with_, (fields) => ask(kind, fields));
  }
});

test("an absent field behaves like its default", async () => {
  for (const kind of ["chat", "completions"] as const) {
    const defaults = Object.fromEntries(
      Object.entries(FIELDS[kind])
        .filter(([name, { default: value }]) => !(name in PLAIN[kind]) && value !== undefined && name !== "request_id")
        .map(([name, { default: value }]) => [name, value]),
    );
    expect(Object.keys(defaults).length).toBeGreaterThan(45);
    // Only valid with tools.
    delete defaults.tool_choice;
    expect(same((await ask(kind, defaults)).raw)).toBe(same((await ask(kind, {})).raw));
  }
});

test("unknown fields are ignored", async () => {
  for (const kind of ["chat", "completions"] as const)
    expect(same((await ask(kind, { no_such_field: { a: [1] } })).raw)).toBe(same((await ask(kind, {})).raw));
});
