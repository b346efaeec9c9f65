/**
 * Checks that answers end at their drawn length in every dialect, and are cut by limits like in vLLM. The servers have no
 * step times.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import { naturalLength } from "../../src/text/answers/answers.ts";
import { DEFAULT_OUTPUT_LENGTHS, type OutputLengths } from "../../src/text/answers/length-forms.ts";
import { thinkingLength } from "../../src/text/answers/thinking.ts";
import { HARMONY } from "../../src/text/tokens/vocabulary.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { sized } from "../size.ts";

setDefaultTimeout(60_000);

/** Number of answers per dialect and limit whose ends are checked. */
const CHATS = sized("lengths", { sample: 150, whole: 1000 });
const FLAGS = "--served-model-name m --timing none --disable-uvicorn-access-log".split(" ");
const drawn = naturalLength(DEFAULT_OUTPUT_LENGTHS, null);
const messages = [{ role: "user", content: "Hello" }];

/** The number of tokens, and whether the answer ended by itself. */
interface End {
  readonly tokens: number;
  readonly stops: boolean;
}

/** Returns the end in vLLM for a natural length: end-of-sequence as the last allowed token is still a stop. */
const endOf = (length: number, most: number): End => ({ tokens: Math.min(length, most), stops: length <= most });

/** The parts of an answer that these tests read, in any dialect. */
interface AnswerEnds {
  readonly choices: readonly {
    readonly index: number;
    readonly finish_reason: string | null;
    readonly stop_reason: unknown;
    readonly token_ids?: readonly number[];
    readonly message: { readonly content: string };
  }[];
  readonly usage: Readonly<Record<"prompt_tokens" | "completion_tokens" | "output_tokens", number>>;
  readonly stop_reason: string;
  readonly status: string;
  readonly incomplete_details: { readonly reason: string } | null;
}

async function post(server: HostedServer, path: string, body: object): Promise<AnswerEnds> {
  const answer = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", ...body }),
  });
  const ends = (await answer.json()) as AnswerEnds;
  if (answer.status !== 200) throw new Error(JSON.stringify(ends));
  return ends;
}

interface Dialect {
  readonly path: string;
  readonly takesIgnoreEos: boolean;
  body(limit: number): object;
  end(answer: AnswerEnds): End;
}

/** Reports whether the finish word means a natural end. Throws for a word other than the dialect's two. */
function stops(word: unknown, stop: string, cut: string): boolean {
  if (word !== stop && word !== cut) throw new Error(`ended with ${word}`);
  return word === stop;
}

const dialects: Readonly<Record<string, Dialect>> = {
  chat: {
    path: "/v1/chat/completions",
    takesIgnoreEos: true,
    body: (limit) => ({ messages, max_tokens: limit }),
    end: ({ choices: [choice], usage }) => ({
      tokens: usage.completion_tokens,
      stops: stops(choice!.finish_reason, "stop", "length"),
    }),
  },
  messages: {
    path: "/v1/messages",
    takesIgnoreEos: false,
    body: (limit) => ({ messages, max_tokens: limit }),
    end: ({ stop_reason, usage }) => ({
      tokens: usage.output_tokens,
      stops: stops(stop_reason, "end_turn", "max_tokens"),
    }),
  },
  responses: {
    path: "/v1/responses",
    takesIgnoreEos: true,
    body: (limit) => ({ input: "Hello", max_output_tokens: limit }),
    end: ({ status, incomplete_details, usage }) => {
      expect(incomplete_details?.reason ?? null).toBe(status === "completed" ? null : "max_output_tokens");
      return { tokens: usage.output_tokens, stops: stops(status, "completed", "incomplete") };
    },
  },
};

/**
 * Returns the share of lengths up to `most` of the given log-normal, by the error function (Abramowitz and Stegun 7.1.26).
 */
function logNormalShare(most: number, { meanTokens, sigma }: Extract<OutputLengths, { kind: "lognormal" }>): number {
  const z = (Math.log(most + 0.5) - (Math.log(meanTokens) - sigma ** 2 / 2)) / sigma / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * Math.abs(z));
  const tail =
    t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) *
    Math.exp(-z * z);
  return z >= 0 ? 1 - tail / 2 : tail / 2;
}

describe.each(Object.entries(dialects))("%s", (_, { path, takesIgnoreEos, body, end }) => {
  let server: HostedServer;
  let next: () => number;
  const SEED = 29;
  beforeAll(async () => {
    // Requests without a seed get theirs in order of arrival. The test draws the same seeds.
    server = await hosted([...FLAGS, "--seed", String(SEED)]);
    next = seeded(SEED);
  });
  afterAll(() => server.stop());

  /** Returns the counts of answers by `finish_reason` from the metrics: stop, length. */
  async function counted(): Promise<number[]> {
    const page = await (await fetch(`${server.url}/metrics`)).text();
    const successes = page.split("\n").filter((line) => line.startsWith("vllm:request_success_total"));
    return ["stop", "length"].map((reason) =>
      Number(
        successes
          .find((line) => line.includes(`finished_reason="${reason}"`))
          ?.split(" ")
          .at(-1),
      ),
    );
  }

  /** Returns the ends of `chats` answers in order, and the ends expected from their seeds. */
  async function ends(chats: number, limit: number, more: object = {}): Promise<{ seen: End[]; wanted: End[] }> {
    const before = await counted();
    const [seen, wanted]: [End[], End[]] = [[], []];
    for (let i = 0; i < chats; i++) {
      const length = drawn(next());
      wanted.push(endOf("ignore_eos" in more && takesIgnoreEos ? Number.POSITIVE_INFINITY : length, limit));
      seen.push(end(await post(server, path, { ...body(limit), ...more })));
    }
    const after = await counted();
    const stopped = seen.filter(({ stops }) => stops).length;
    expect(after.map((count, i) => count - before[i]!)).toEqual([stopped, chats - stopped]);
    return { seen, wanted };
  }

  test.each([4000, 32])("max_tokens %i: each answer ends at its drawn length or at the limit", async (limit) => {
    const { seen, wanted } = await ends(CHATS, limit);
    expect(seen).toEqual(wanted);
    if (DEFAULT_OUTPUT_LENGTHS.kind !== "lognormal") throw new Error("the default has another form");
    const share = logNormalShare(limit, DEFAULT_OUTPUT_LENGTHS);
    const stopped = seen.filter(({ stops }) => stops).length;
    // The tolerance is four standard deviations of a binomial count, plus the tails cut by `normal` in
    // text/answers/answers.ts.
    expect(Math.abs(stopped - share * CHATS)).toBeLessThan(4 * Math.sqrt(CHATS * share * (1 - share)) + 2);
  });

  test(`ignore_eos: ${takesIgnoreEos ? "all go on to the limit" : "no field of this dialect, answers end as drawn"}`, async () => {
    // Each answer shows whether the flag works, so this needs fewer answers than a distribution.
    const { seen, wanted } = await ends(200, 200, { ignore_eos: true });
    expect(seen).toEqual(wanted);
    if (takesIgnoreEos) expect(seen.every(({ stops, tokens }) => !stops && tokens === 200)).toBe(true);
  });
});

/** Returns a seed whose natural length, by the default distribution, satisfies `wanted`. */
function seedOfLength(wanted: (length: number) => boolean): number {
  for (let seed = 1; ; seed++) if (wanted(drawn(seed))) return seed;
}

describe("limits", () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted([...FLAGS, "--max-model-len", "2000"]);
  });
  afterAll(() => server.stop());
  const chat = async (body: object) => {
    const { choices, usage } = await post(server, "/v1/chat/completions", { messages, ...body });
    const { finish_reason, stop_reason, token_ids } = choices[0]!;
    return [usage.completion_tokens, finish_reason, stop_reason, token_ids?.length];
  };

  test("the end of sequence counts: as the last token that max_tokens allows it is a stop, one token later a length", async () => {
    const seed = seedOfLength((length) => length === 100);
    expect(await chat({ seed, max_tokens: 101, return_token_ids: true })).toEqual([100, "stop", null, 100]);
    expect(await chat({ seed, max_tokens: 100 })).toEqual([100, "stop", null, undefined]);
    expect(await chat({ seed, max_tokens: 99 })).toEqual([99, "length", null, undefined]);
    expect(await chat({ seed })).toEqual([100, "stop", null, undefined]);
    // The last token has no visible text. The 99 tokens before it equal the first 99 of the longer answer.
    const text = async (body: object) =>
      (await post(server, "/v1/chat/completions", { messages, seed, ...body })).choices[0]!.message.content;
    expect(await text({ max_tokens: 101 })).toBe(await text({ max_tokens: 99, ignore_eos: true }));
  });

  test("min_tokens delays the end to the next token, and does not change a longer answer", async () => {
    const seed = seedOfLength((length) => length === 40);
    expect(await chat({ seed, min_tokens: 30 })).toEqual([40, "stop", null, undefined]);
    expect(await chat({ seed, min_tokens: 39 })).toEqual([40, "stop", null, undefined]);
    expect(await chat({ seed, min_tokens: 40 })).toEqual([41, "stop", null, undefined]);
    expect(await chat({ seed, min_tokens: 60, max_tokens: 80 })).toEqual([61, "stop", null, undefined]);
    expect(await chat({ seed, min_tokens: 60, max_tokens: 60 })).toEqual([60, "length", null, undefined]);
    // With forbidden tokens, ids are generated in a different place.
    const forbids = { logit_bias: { "11": -100 } };
    expect(await chat({ seed, ...forbids })).toEqual([40, "stop", null, undefined]);
    expect(await chat({ seed, min_tokens: 60, ...forbids })).toEqual([61, "stop", null, undefined]);
  });

  test("with ignore_eos an answer continues to max_tokens or to the end of the context", async () => {
    const seed = seedOfLength((length) => length === 40);
    expect(await chat({ seed, max_tokens: 500, ignore_eos: true })).toEqual([500, "length", null, undefined]);
    const { usage } = await post(server, "/v1/chat/completions", { messages, seed, max_tokens: 1 });
    expect(await chat({ seed, ignore_eos: true })).toEqual([2000 - usage.prompt_tokens, "length", null, undefined]);
  });

  test("each choice of each prompt has its own length, streamed as whole", async () => {
    const seed = 77;
    const wanted = [0, 1, 2].map((choice) => endOf(drawn(seed + choice), 110));
    const asked = { prompt: ["One", "Two two"], n: 3, seed, max_tokens: 110, return_token_ids: true };
    const whole = await post(server, "/v1/completions", asked);
    const ends = whole.choices.map((choice) => ({
      tokens: choice.token_ids!.length,
      stops: stops(choice.finish_reason, "stop", "length"),
    }));
    expect(ends).toEqual([...wanted, ...wanted]);
    expect(new Set(wanted.map(({ stops }) => stops)).size).toBe(2);
    expect(whole.usage.completion_tokens).toBe(2 * wanted.reduce((sum, { tokens }) => sum + tokens, 0));
    const answer = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", ...asked, stream: true, stream_options: { include_usage: true } }),
    });
    const chunks = (await answer.text())
      .split("\n\n")
      .filter((event) => event.startsWith("data: {"))
      .map((event) => JSON.parse(event.slice("data: ".length)) as AnswerEnds);
    const streamed = Array.from({ length: 6 }, () => ({ tokens: 0, reason: null as string | null }));
    for (const { choices } of chunks)
      for (const { index, token_ids, finish_reason } of choices) {
        streamed[index]!.tokens += token_ids!.length;
        streamed[index]!.reason ??= finish_reason;
      }
    expect(streamed.map(({ tokens, reason }) => ({ tokens, stops: stops(reason, "stop", "length") }))).toEqual(ends);
    expect(chunks.at(-1)!.usage.completion_tokens).toBe(whole.usage.completion_tokens);
  });
});

describe("other lengths", () => {
  async function withServer(flags: readonly string[], work: (server: HostedServer) => Promise<void>): Promise<void> {
    const server = await hosted([...FLAGS, ...flags]);
    try {
      await work(server);
    } finally {
      await server.stop();
    }
  }
  const tokensOf = async (server: HostedServer, body: object) => {
    const { choices, usage } = await post(server, "/v1/chat/completions", { messages, ...body });
    return [usage.completion_tokens, choices[0]!.finish_reason];
  };

  test("constant applies to every answer except fixed texts, and the banner shows it", async () => {
    await withServer(["--output-tokens", "constant:3"], async (server) => {
      for (const seed of [1, 2, 3]) expect(await tokensOf(server, { seed, max_tokens: 50 })).toEqual([3, "stop"]);
      expect(server.output()).toContain("constant:3 tokens");
      const [echoed] = await tokensOf(server, { understudy: { script: "one two three four five six seven" } });
      expect(echoed).toBe(8);
      const schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
      const { choices } = await post(server, "/v1/chat/completions", {
        messages,
        response_format: { type: "json_schema", json_schema: { name: "a", schema } },
      });
      expect(JSON.parse(choices[0]!.message.content)).toEqual({ a: expect.any(Number) });
    });
  });

  test("trace: each request has one of the file's lengths, by its seed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "understudy-lengths-"));
    const file = join(folder, "azure.csv");
    const rows = [7, 21, 300].map((tokens, i) => `2023-11-16 18:15:4${i}.0000000,100,${tokens}`);
    writeFileSync(file, `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows.join("\n")}\n`);
    const lengths = naturalLength({ kind: "trace", file }, Uint32Array.of(7, 21, 300));
    try {
      await withServer(["--output-tokens", `trace:${file}`], async (server) => {
        const seen = new Set<number>();
        for (let seed = 0; seed < 30; seed++) {
          const length = lengths(seed);
          expect(await tokensOf(server, { seed, max_tokens: 100 })).toEqual(
            length === 300 ? [100, "length"] : [length, "stop"],
          );
          seen.add(length);
        }
        expect([...seen].sort((a, b) => a - b)).toEqual([7, 21, 300]);
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("thinking is added to the length, both count for min_tokens, and a forbidden end does not occur", async () => {
    const flags = ["--output-tokens", "constant:20", "--reasoning-parser", "deepseek_r1"];
    await withServer(flags, async (server) => {
      const seed = 5;
      const thought = thinkingLength(seed, 64) + 2;
      expect(thought).toBeLessThan(200);
      expect(await tokensOf(server, { seed, max_tokens: 1000 })).toEqual([thought + 20, "stop"]);
      expect(await tokensOf(server, { seed, max_tokens: thought + 20 })).toEqual([thought + 20, "stop"]);
      expect(await tokensOf(server, { seed, max_tokens: thought + 19 })).toEqual([thought + 19, "length"]);
      expect(await tokensOf(server, { seed, max_tokens: 1000, min_tokens: thought })).toEqual([thought + 20, "stop"]);
      expect(await tokensOf(server, { seed, max_tokens: 1000, min_tokens: 300 })).toEqual([301, "stop"]);
      expect(await tokensOf(server, { seed, max_tokens: 600, ignore_eos: true })).toEqual([600, "length"]);
      const never = { logit_bias: { [HARMONY.return]: -100 } };
      expect(await tokensOf(server, { seed, max_tokens: 600, ...never })).toEqual([600, "length"]);
    });
  });
});
