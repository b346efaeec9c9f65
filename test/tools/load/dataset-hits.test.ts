/** Do a trace's shared blocks hit the server's prefix cache where they should, and are texts as long as they say? */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Count, type DatasetOptions, dataset } from "../../../src/tools/load/datasets/index.ts";
import type { Turn } from "../../../src/tools/load/requests/types.ts";
import { type Hosted, hosted } from "../../hosted.ts";
import { sample } from "../../server.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-hits-"));
const path = join(folder, "trace.jsonl");
const BLOCK = 16;
/** Tokens per hash id. */
const TRACE_BLOCK = 64;
const MODEL = "hits/model";

/** Prompts that begin alike, end within a block and at its end, and the same ones again. */
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

let server: Hosted;
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

/** Tokens that an endless cache of `block` tokens finds, where prompts begin with `before` tokens that all share. */
function expected(block: number, before: number, behind: number): number[] {
  const known = new Set<string>();
  return ROWS.map(([ids, tokens], row) => {
    // What stands at each place: a template's token, the trace's, or the request's own.
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

test("chat: words, one token each as the server counts", async () => {
  const chat = (prompt: unknown) =>
    ask("/v1/chat/completions", { messages: [{ role: "user", content: prompt }], max_tokens: 1 });
  // All that the template adds to a text.
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
  // How much of it stands before the text is the template's business; one split explains all hits.
  const splits = Array.from({ length: around + 1 }, (_, before) => expected(BLOCK, before, around - before));
  expect(splits).toContainEqual(found);
});

test("random prompts hit nothing but their prefix", async () => {
  const found: number[] = [];
  for (const { prompt } of await turns({ name: "random", chat: false, inputLen: 100, prefixLen: 40 })) {
    const before = await hits();
    await ask("/v1/completions", { prompt, max_tokens: 1 });
    found.push((await hits()) - before);
  }
  expect(found).toEqual([0, ...Array(ROWS.length - 1).fill(32)]);
});
