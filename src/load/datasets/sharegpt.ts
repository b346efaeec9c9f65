/**
 * Which conversations of a ShareGPT file are asked again? The first two turns of each are prompt and answer; which of them
 * count, and in which order, is vLLM 0.33's rule (`benchmarks/datasets`: ShareGPTDataset, is_valid_sequence). The file is
 * read once, and as many as are asked for are drawn from it, so that memory does not grow with the file.
 */
import { jsonObjectIn } from "../../config/json-object.ts";
import { type Element, elements } from "../../traces/elements.ts";
import { TraceFile } from "../../traces/lines.ts";
import { estimateTokens } from "../../traces/sharegpt.ts";
import { type BadLine, TraceError } from "../../traces/trace.ts";
import type { Turn } from "../types.ts";
import { shuffle } from "./synthetic.ts";
import { type Count, counted, draw, type Streams } from "./text.ts";

const EXPECTED =
  'a conversation such as {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}';
const TOKENS_LEAST = 4;
const PROMPT_MOST = 1024;
const SUM_MOST = 2048;
/** Where nobody says how many requests there will be. */
const CONVERSATIONS_MOST = 10_000;
/** With more bad pieces than this it is another file. */
const BAD_MOST = 10_000;
/** Conversations counted at once; each has two texts. */
const BATCH = 32;

export interface ShareGptShape {
  /** Null: as long as the answer in the file. */
  readonly outputTokens: number | null;
  /** How many are wanted; null: CONVERSATIONS_MOST. */
  readonly limit: number | null;
  /** Null: a token for each four bytes. */
  readonly count: Count | null;
}

interface Pair {
  readonly prompt: string;
  readonly answer: string;
}

export interface Selection {
  readonly turns: readonly Turn[];
  readonly bad: readonly BadLine[];
}

export async function shareGptDataset(path: string, shape: ShareGptShape, streams: Streams): Promise<Selection> {
  const wanted = Math.min(shape.limit ?? CONVERSATIONS_MOST, CONVERSATIONS_MOST);
  const file = new TraceFile(path);
  try {
    const bad: BadLine[] = [];
    const pairs = drawn(pairsOf(elements(file.pieces()), path, bad), wanted, shape, streams);
    return { turns: await chosen(pairs, wanted, shape), bad };
  } finally {
    file.close();
  }
}

/** Conversations with fewer than two turns are passed over. */
function* pairsOf(found: Iterable<Element>, path: string, bad: BadLine[]): Generator<Pair> {
  for (const { line, text } of found) {
    const values = valuesOf(text);
    if (values === null) bad.push({ line, expected: EXPECTED });
    else if (values.length >= 2) yield { prompt: values[0]!, answer: values[1]! };
    if (bad.length > BAD_MOST)
      throw new TraceError(`${path}:${line}: more than ${BAD_MOST} pieces that are no ${EXPECTED}`);
  }
}

/** At most two; null where it is no conversation. */
function valuesOf(text: string | null): string[] | null {
  const { conversations, conversation } = jsonObjectIn(text) ?? {};
  const turns = conversations ?? conversation;
  if (!Array.isArray(turns)) return null;
  const values = turns.slice(0, 2).map((turn) => turn?.value ?? turn?.content);
  return values.every((value) => typeof value === "string") ? values : null;
}

/**
 * Evenly from all, in random order. Where the server counts, twice as many as are wanted, since some will not do; where
 * nobody does, those that will not are left out before.
 */
function drawn(pairs: Iterable<Pair>, wanted: number, shape: ShareGptShape, streams: Streams): Pair[] {
  const random = streams.of("order");
  const room = shape.count ? 2 * wanted + BATCH : wanted;
  const held: Pair[] = [];
  let seen = 0;
  for (const pair of pairs) {
    if (!shape.count && !isValid(estimateTokens(pair.prompt), estimateTokens(pair.answer), shape)) continue;
    seen++;
    if (held.length < room) held.push(pair);
    else {
      const place = draw(random, 0, seen - 1);
      if (place < room) held[place] = pair;
    }
  }
  shuffle(held, random);
  return held;
}

async function chosen(pairs: readonly Pair[], wanted: number, shape: ShareGptShape): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let at = 0; at < pairs.length && turns.length < wanted; at += BATCH) {
    const batch = pairs.slice(at, at + BATCH);
    const texts = batch.flatMap(({ prompt, answer }) => [prompt, answer]);
    const tokens = shape.count ? await counted(shape.count, texts) : texts.map(estimateTokens);
    batch.forEach(({ prompt }, i) => {
      const [inputTokens, answerTokens] = [tokens[2 * i]!, tokens[2 * i + 1]!];
      if (turns.length >= wanted || !isValid(inputTokens, answerTokens, shape)) return;
      const outputTokens = shape.outputTokens ?? answerTokens;
      turns.push({ conversation: null, prompt, inputTokens, outputTokens, arrivalUs: null, thinkUs: 0, extra: {} });
    });
  }
  return turns;
}

function isValid(prompt: number, answer: number, { outputTokens }: ShareGptShape): boolean {
  const output = outputTokens ?? answer;
  const longEnough = prompt >= TOKENS_LEAST && (outputTokens !== null || output >= TOKENS_LEAST);
  return longEnough && prompt <= PROMPT_MOST && prompt + output <= SUM_MOST;
}
