/**
 * Which conversations of a ShareGPT file are asked again? The first two turns of each are prompt and answer; which of them
 * count, and in which order, is vLLM 0.33's rule (`benchmarks/datasets`: ShareGPTDataset, is_valid_sequence). The file is
 * read once, and as many as are asked for are drawn from it, so that memory does not grow with the file.
 */
import { type Element, elements } from "../../../workloads/elements.ts";
import { TraceFile } from "../../../workloads/lines.ts";
import { estimateTokens, type PromptAndAnswer, pairOf, SHAREGPT_EXPECTED } from "../../../workloads/sharegpt.ts";
import { SkippedRows } from "../../../workloads/skipped-rows.ts";
import { type BadLine, TraceError } from "../../../workloads/trace.ts";
import type { Turn } from "../requests/types.ts";
import { shuffle } from "./synthetic.ts";
import { type Count, counted, draw, type Streams } from "./text.ts";

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

export interface Selection {
  readonly turns: readonly Turn[];
  readonly bad: readonly BadLine[];
  /** Conversations that vLLM's rule leaves out, and those without an answer. */
  readonly passed: SkippedRows;
}

export async function shareGptDataset(path: string, shape: ShareGptShape, streams: Streams): Promise<Selection> {
  const wanted = Math.min(shape.limit ?? CONVERSATIONS_MOST, CONVERSATIONS_MOST);
  const file = new TraceFile(path);
  try {
    const bad: BadLine[] = [];
    const passed = new SkippedRows();
    const pairs = drawn(pairsOf(elements(file.pieces()), path, bad, passed), wanted, shape, passed, streams);
    return { turns: await chosen(pairs, wanted, shape, passed), bad, passed };
  } finally {
    file.close();
  }
}

/** Conversations without a prompt or an answer are passed over. */
function* pairsOf(
  found: Iterable<Element>,
  path: string,
  bad: BadLine[],
  passed: SkippedRows,
): Generator<PromptAndAnswer> {
  for (const { line, text } of found) {
    const pair = pairOf(text);
    if (typeof pair === "string") passed.add(pair);
    else passed.rows++;
    if (pair === null) bad.push({ line, expected: SHAREGPT_EXPECTED });
    else if (typeof pair !== "string") yield pair;
    if (bad.length > BAD_MOST)
      throw new TraceError(`${path}:${line}: more than ${BAD_MOST} pieces, expected ${SHAREGPT_EXPECTED}`);
  }
}

/** Passes over a conversation that was counted as a row. */
function leaveOut(passed: SkippedRows, reason: string): void {
  passed.rows--;
  passed.add(reason);
}

/**
 * Evenly from all, in random order. Where the server counts, twice as many as are wanted, since some will not do; where
 * nobody does, those that will not are left out before.
 */
function drawn(
  pairs: Iterable<PromptAndAnswer>,
  wanted: number,
  shape: ShareGptShape,
  passed: SkippedRows,
  streams: Streams,
): PromptAndAnswer[] {
  const random = streams.of("order");
  const room = shape.count ? 2 * wanted + BATCH : wanted;
  const held: PromptAndAnswer[] = [];
  let seen = 0;
  for (const pair of pairs) {
    const why = shape.count ? null : whyNot(estimateTokens(pair.prompt), estimateTokens(pair.answer), shape);
    if (why !== null) {
      leaveOut(passed, why);
      continue;
    }
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

async function chosen(
  pairs: readonly PromptAndAnswer[],
  wanted: number,
  shape: ShareGptShape,
  passed: SkippedRows,
): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let at = 0; at < pairs.length && turns.length < wanted; at += BATCH) {
    const batch = pairs.slice(at, at + BATCH);
    const texts = batch.flatMap(({ prompt, answer }) => [prompt, answer]);
    const tokens = shape.count ? await counted(shape.count, texts) : texts.map(estimateTokens);
    batch.forEach(({ prompt }, i) => {
      const [inputTokens, answerTokens] = [tokens[2 * i]!, tokens[2 * i + 1]!];
      if (turns.length >= wanted) return;
      const why = whyNot(inputTokens, answerTokens, shape);
      const outputTokens = shape.outputTokens ?? answerTokens;
      if (why !== null) leaveOut(passed, why);
      else
        turns.push({ conversation: null, prompt, inputTokens, outputTokens, arrivalUs: null, thinkUs: 0, extra: {} });
    });
  }
  return turns;
}

/** Returns the part of vLLM's rule that a conversation does not keep, or null. */
function whyNot(prompt: number, answer: number, { outputTokens }: ShareGptShape): string | null {
  if (prompt < TOKENS_LEAST) return `prompt below ${TOKENS_LEAST} tokens`;
  if (outputTokens === null && answer < TOKENS_LEAST) return `answer below ${TOKENS_LEAST} tokens`;
  if (prompt > PROMPT_MOST) return `prompt above ${PROMPT_MOST} tokens`;
  return prompt + (outputTokens ?? answer) > SUM_MOST ? `prompt and answer above ${SUM_MOST} tokens` : null;
}
