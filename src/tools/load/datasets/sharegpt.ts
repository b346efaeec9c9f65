/**
 * Draws prompts from a ShareGPT file. The first two turns of a conversation are prompt and answer. Conversations are filtered
 * and ordered by vLLM 0.33's rule (`benchmarks/datasets`: ShareGPTDataset, is_valid_sequence). The file is read once, and only
 * the needed number of conversations is kept, so memory does not grow with the file.
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
/** Number of conversations if the number of requests is unknown. */
const CONVERSATIONS_MOST = 10_000;
/** Number of bad pieces after which the file is refused. */
const BAD_MOST = 10_000;
/** Number of conversations that are counted at once. Each has two texts. */
const BATCH = 32;

export interface ShareGptShape {
  /** Output tokens. Null: as long as the answer in the file. */
  readonly outputTokens: number | null;
  /** Number of needed conversations. Null for CONVERSATIONS_MOST. */
  readonly limit: number | null;
  /** Counts tokens with the server's tokenizer. Null: one token per four bytes is assumed. */
  readonly count: Count | null;
}

export interface Selection {
  readonly turns: readonly Turn[];
  readonly bad: readonly BadLine[];
  /** Conversations that vLLM's rule excludes, and those without an answer. */
  readonly passed: SkippedRows;
}

export async function shareGptDataset(path: string, shape: ShareGptShape, streams: Streams): Promise<Selection> {
  const needed = Math.min(shape.limit ?? CONVERSATIONS_MOST, CONVERSATIONS_MOST);
  const file = new TraceFile(path);
  try {
    const bad: BadLine[] = [];
    const passed = new SkippedRows();
    const pairs = drawPairs(pairsOf(elements(file.pieces()), path, bad, passed), needed, shape, passed, streams);
    return { turns: await chooseTurns(pairs, needed, shape, passed), bad, passed };
  } finally {
    file.close();
  }
}

/** Yields prompt and answer of each conversation. Skips conversations without them. */
function* pairsOf(
  pieces: Iterable<Element>,
  path: string,
  bad: BadLine[],
  passed: SkippedRows,
): Generator<PromptAndAnswer> {
  for (const { line, text } of pieces) {
    const pair = pairOf(text);
    if (typeof pair === "string") passed.add(pair);
    else passed.rows++;
    if (pair === null) bad.push({ line, expected: SHAREGPT_EXPECTED });
    else if (typeof pair !== "string") yield pair;
    if (bad.length > BAD_MOST)
      throw new TraceError(`${path}:${line}: more than ${BAD_MOST} pieces, expected ${SHAREGPT_EXPECTED}`);
  }
}

/** Skips a conversation that was already counted as a row. */
function leaveOut(passed: SkippedRows, reason: string): void {
  passed.rows--;
  passed.add(reason);
}

/**
 * Draws conversations evenly from the whole file, in random order. If the server counts tokens, draws twice as many as needed,
 * because some will be excluded later. Else they are excluded before the draw.
 */
function drawPairs(
  pairs: Iterable<PromptAndAnswer>,
  needed: number,
  shape: ShareGptShape,
  passed: SkippedRows,
  streams: Streams,
): PromptAndAnswer[] {
  const random = streams.of("order");
  const room = shape.count ? 2 * needed + BATCH : needed;
  const reservoir: PromptAndAnswer[] = [];
  let seen = 0;
  for (const pair of pairs) {
    const why = shape.count ? null : whyNot(estimateTokens(pair.prompt), estimateTokens(pair.answer), shape);
    if (why !== null) {
      leaveOut(passed, why);
      continue;
    }
    seen++;
    if (reservoir.length < room) reservoir.push(pair);
    else {
      const place = draw(random, 0, seen - 1);
      if (place < room) reservoir[place] = pair;
    }
  }
  shuffle(reservoir, random);
  return reservoir;
}

async function chooseTurns(
  pairs: readonly PromptAndAnswer[],
  needed: number,
  shape: ShareGptShape,
  passed: SkippedRows,
): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let at = 0; at < pairs.length && turns.length < needed; at += BATCH) {
    const batch = pairs.slice(at, at + BATCH);
    const texts = batch.flatMap(({ prompt, answer }) => [prompt, answer]);
    const tokens = shape.count ? await counted(shape.count, texts) : texts.map(estimateTokens);
    batch.forEach(({ prompt }, i) => {
      const [inputTokens, answerTokens] = [tokens[2 * i]!, tokens[2 * i + 1]!];
      if (turns.length >= needed) return;
      const why = whyNot(inputTokens, answerTokens, shape);
      const outputTokens = shape.outputTokens ?? answerTokens;
      if (why !== null) leaveOut(passed, why);
      else
        turns.push({ conversation: null, prompt, inputTokens, outputTokens, arrivalUs: null, thinkUs: 0, extra: {} });
    });
  }
  return turns;
}

/** Returns the part of vLLM's rule that excludes a conversation. Null if it is not excluded. */
function whyNot(prompt: number, answer: number, { outputTokens }: ShareGptShape): string | null {
  if (prompt < TOKENS_LEAST) return `prompt below ${TOKENS_LEAST} tokens`;
  if (outputTokens === null && answer < TOKENS_LEAST) return `answer below ${TOKENS_LEAST} tokens`;
  if (prompt > PROMPT_MOST) return `prompt above ${PROMPT_MOST} tokens`;
  return prompt + (outputTokens ?? answer) > SUM_MOST ? `prompt and answer above ${SUM_MOST} tokens` : null;
}
