/** Tests that shared blocks of a trace hit the server's prefix cache, and that texts have the stated lengths. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Count, type DatasetOptions, dataset } from "../../../src/tools/load/datasets/index.ts";
import type { Turn } from "../../../src/tools/load/requests/types.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { sample } from "../../server.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-hits-"));
const path = join(folder, "trace.jsonl");
const BLOCK = 16;
/** Tokens per hash id. */
const TRACE_BLOCK = 64;
const MODEL = "hits/model";

/** Prompts that share beginnings, that end within a block and at its end, and repeated prompts. */
const ROWS: readonly (readonly [ids: readonly number[], tokens: number])[] = [
  [[0, 1, 2], 180],
  [[0, 1, 3], 192],
  [[0, 1, 3], 192],
  [[4], 30],
  [[0, 5], 128],
  [[0, 1, 2, 6], 200],
  [[4], 64],
  [[], 100],
  [[], 100],
];

let server: HostedServer;
beforeAll(async () => {
  const rows = ROWS.map(([hash_ids, input_length], i) => ({ timestamp: i, input_length, output_length: 1, hash_ids }));
  writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
  server = await hosted(["--timing", "none", "--block-size", `${BLOCK}`, MODEL]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

async function ask(route: string, body: object): Promise<{ count?: number; usage?: { prompt_tokens: number } }> {
  const answer = await fetch(server.url + route, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: MODEL, ...body }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as never;
}

const count: Count = (texts) =>
  Promise.all(texts.map(async (prompt) => (await ask("/tokenize", { prompt, add_special_tokens: false })).count!));

async function turns(options: Partial<DatasetOptions> & Pick<DatasetOptions, "name" | "chat">): Promise<Turn[]> {
  const found = await dataset({ count, seed: 0, limit: null, ...options });
  const some: Turn[] = [];
  for (const turn of found.turns(0)) {
    if ("expected" in turn) throw new Error(turn.expected);
    if (some.push(turn) === ROWS.length) break;
  }
  return some;
}

const hits = () => sample(server.url, "vllm:prefix_cache_hits_total");

/**
 * Returns the tokens that an endless cache with blocks of `block` tokens finds, if all prompts share their first `before`
 * tokens.
 */
function expected(block: number, before: number, behind: number): number[] {
  const known = new Set<string>();
  return ROWS.map(([ids, tokens], row) => {
    // Content of each position: a token of the template, of the trace, or of this request alone.
    const contents = [
      ...Array.from({ length: before }, (_, at) => `template ${at}`),
      ...Array.from({ length: tokens }, (_, at) => {
        const id = ids[Math.floor(at / TRACE_BLOCK)];
        return id === undefined ? `${row} ${at}` : `${id} ${at % TRACE_BLOCK}`;
      }),
      ...Array.from({ length: behind }, (_, at) => `end ${at}`),
    ];
    let found = 0;
    let open = true;
    for (let end = block; end <= contents.length; end += block) {
      const beginning = contents.slice(0, end).join();
      // The last token is always computed.
      if (open && known.has(beginning) && end < contents.length) found = end;
      else open = false;
      known.add(beginning);
    }
    return found;
  });
}

test("completions: token ids, to the block", async () => {
  const found: number[] = [];
  for (const { prompt, inputTokens } of await turns({
    name: "mooncake",
    chat: false,
    path,
    trace: { hashBlockTokens: TRACE_BLOCK },
  })) {
    const before = await hits();
    const { usage } = await ask("/v1/completions", { prompt, max_tokens: 1 });
    expect(usage!.prompt_tokens).toBe(inputTokens!);
    found.push((await hits()) - before);
  }
  expect(found).toEqual(expected(BLOCK, 0, 0));
  expect(found.reduce((sum, tokens) => sum + tokens)).toBeGreaterThan(500);
});

test("chat: words that are one token each on the server", async () => {
  const chat = (prompt: unknown) =>
    ask("/v1/chat/completions", { messages: [{ role: "user", content: prompt }], max_tokens: 1 });
  // Number of all tokens that the template adds to a text.
  const around = (await chat("the")).usage!.prompt_tokens - 1;
  const found: number[] = [];
  for (const { prompt, inputTokens } of await turns({
    name: "mooncake",
    chat: true,
    path,
    trace: { hashBlockTokens: TRACE_BLOCK },
  })) {
    const before = await hits();
    expect((await chat(prompt)).usage!.prompt_tokens).toBe(inputTokens! + around);
    found.push((await hits()) - before);
  }
  // The template decides how many of them precede the text. One split must explain all hits.
  const splits = Array.from({ length: around + 1 }, (_, before) => expected(BLOCK, before, around - before));
  expect(splits).toContainEqual(found);
});

test("random prompts hit only their common prefix", async () => {
  const found: number[] = [];
  for (const { prompt } of await turns({ name: "random", chat: false, inputLen: 100, prefixLen: 40 })) {
    const before = await hits();
    await ask("/v1/completions", { prompt, max_tokens: 1 });
    found.push((await hits()) - before);
  }
  expect(found).toEqual([0, ...Array(ROWS.length - 1).fill(32)]);
});
