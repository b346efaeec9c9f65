/**
 * Generates prompts. `random` and `prefix_repetition` follow vLLM 0.33 (`benchmarks/datasets`: RandomDataset,
 * PrefixRepetitionRandomDataset); `multi_turn` generates conversations.
 */
import type { Random } from "../../../base/random.ts";
import { TO_THE_END } from "../requests/body.ts";
import type { Turn } from "../requests/types.ts";
import { draw, type PromptWriter, type Streams, type Symbols } from "./text.ts";
import { type ThinkTime, thinkUs } from "./think.ts";

export interface Range {
  readonly least: number;
  readonly most: number;
}

/** Returns the range of lengths as vLLM computes it: the lower end is rounded down, the upper end up. `least`: lower bound. */
export function rangeOf(length: number, ratio: number, least: number): Range {
  const low = Math.max(least, Math.floor(length * (1 - ratio)));
  return { least: low, most: Math.max(low, Math.ceil(length * (1 + ratio))) };
}

export interface RandomShape {
  readonly input: Range;
  readonly output: Range;
  /** Number of equal tokens at the beginning of each prompt. */
  readonly prefixLen: number;
}

/** Yields endless turns. Each prompt is a random sequence of its own. */
export function* random(
  writer: PromptWriter,
  { input, output, prefixLen }: RandomShape,
  streams: Streams,
): Generator<Turn> {
  const lengths = streams.of("length");
  for (let number = 0; ; number++) {
    const inputTokens = prefixLen + draw(lengths, input.least, input.most);
    const outputTokens = draw(lengths, output.least, output.most);
    const symbols: Symbols = [];
    writer.append(symbols, streams.of("prefix"), 0, prefixLen);
    writer.append(symbols, streams.of("own", number), prefixLen, inputTokens);
    yield singleTurn(writer.prompt(symbols), inputTokens, outputTokens);
  }
}

export interface PrefixShape {
  readonly prefixLen: number;
  readonly suffixLen: number;
  readonly prefixes: number;
  readonly outputTokens: number;
}

/** Yields endless turns. Each of `prefixes` successive requests has another prefix, in an order that is shuffled each time. */
export function* prefixRepetition(writer: PromptWriter, shape: PrefixShape, streams: Streams): Generator<Turn> {
  const { prefixLen, suffixLen, prefixes, outputTokens } = shape;
  const order = Array.from({ length: prefixes }, (_, number) => number);
  const orders = streams.of("order");
  for (let number = 0; ; number++) {
    if (number % prefixes === 0) shuffle(order, orders);
    const symbols: Symbols = [];
    writer.append(symbols, streams.of("prefix", order[number % prefixes]!), 0, prefixLen);
    writer.append(symbols, streams.of("own", number), prefixLen, prefixLen + suffixLen);
    yield singleTurn(writer.prompt(symbols), prefixLen + suffixLen, outputTokens);
  }
}

export interface ConversationShape extends RandomShape {
  readonly turns: Range;
  readonly think: ThinkTime;
}

/**
 * Yields endless conversations, with the turns of each in sequence. Each conversation begins with the same `prefixLen` tokens.
 */
export function* conversations(writer: PromptWriter, shape: ConversationShape, streams: Streams): Generator<Turn> {
  const { input, output, prefixLen, turns, think } = shape;
  const lengths = streams.of("length");
  const pauses = streams.of("think");
  for (let number = 0; ; number++) {
    const count = draw(lengths, turns.least, turns.most);
    const ownStream = streams.of("own", number);
    for (let turn = 0; turn < count; turn++) {
      const before = turn === 0 ? prefixLen : 0;
      const inputTokens = before + draw(lengths, input.least, input.most);
      const outputTokens = draw(lengths, output.least, output.most);
      const symbols: Symbols = [];
      writer.append(symbols, streams.of("prefix"), 0, before);
      writer.append(symbols, ownStream, before, inputTokens);
      yield {
        ...singleTurn(writer.prompt(symbols), inputTokens, outputTokens),
        conversation: `conversation-${number}`,
        thinkUs: turn === 0 ? 0 : thinkUs(think, pauses),
      };
    }
  }
}

/** Shuffles in place (Fisher-Yates). */
export function shuffle<T>(items: T[], random: Random): void {
  for (let last = items.length - 1; last > 0; last--) {
    const other = draw(random, 0, last);
    [items[last], items[other]] = [items[other]!, items[last]!];
  }
}

export function singleTurn(prompt: Turn["prompt"], inputTokens: number, outputTokens: number): Turn {
  return { conversation: null, prompt, inputTokens, outputTokens, arrivalUs: null, thinkUs: 0, extra: TO_THE_END };
}
