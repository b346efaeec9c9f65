/**
 * Which loads does a server meet? fast-check arbitraries of request mixes: prompts that share beginnings, lengths, clients
 * that leave, arrivals, priorities. They shrink to few, short, patient requests.
 */
import fc from "fast-check";

/** One request of a mix. */
export interface MixRequest {
  /** After the start of the mix; requests come in this order. */
  readonly atMs: number;
  /** A word a token, give or take: which beginning is shared is exact. */
  readonly prompt: string;
  /** Words. */
  readonly promptLength: number;
  /** How many of them stand in other requests with the same prefix too; 0: none. */
  readonly prefixLength: number;
  /** Most output tokens. */
  readonly maxTokens: number;
  /** The client leaves after so many chunks of the stream; null: it stays. 0: before the first. */
  readonly leavesAfter: number | null;
  /** vLLM's: smaller is more urgent. */
  readonly priority: number;
}

/** Requests in the order of their arrivals. */
export type Mix = readonly MixRequest[];

/** How large mixes may become. */
export interface MixOptions {
  /** Default 20. */
  readonly maxRequests?: number;
  /** Words; default 200. */
  readonly maxPromptLength?: number;
  /** Tokens; default 32. */
  readonly maxOutputTokens?: number;
  /** Different shared beginnings; default 3, 0 for none. */
  readonly prefixes?: number;
  /** Between two arrivals; default 20. */
  readonly maxGapMs?: number;
  /** Whether clients leave; default true. */
  readonly aborts?: boolean;
  /** Default [0]: all alike. */
  readonly priorities?: readonly number[];
}

const WORDS = "the of and to in is you that it he was for on are as with his they at be this from have or by".split(
  " ",
);
/** No two prefixes, and no two requests, continue alike. */
const STREAMS = 1_000_003;

/** Words `from` to `to` of an endless text. */
function words(stream: number, from: number, to: number): string[] {
  const found: string[] = [];
  for (let i = from; i < to; i++) {
    const mixed = Math.imul(stream * STREAMS + i + 1, 0x9e3779b1) >>> 0;
    found.push(WORDS[(mixed >>> 16) % WORDS.length]!);
  }
  return found;
}

/** Mixes of 1 to `maxRequests` requests. */
export function requestMixes(options: MixOptions = {}): fc.Arbitrary<Mix> {
  const { maxRequests = 20, maxPromptLength = 200, maxOutputTokens = 32, maxGapMs = 20 } = options;
  const { prefixes = 3, aborts = true, priorities = [0] } = options;
  const drawn = fc.record({
    gapMs: fc.nat({ max: maxGapMs }),
    promptLength: fc.integer({ min: 1, max: maxPromptLength }),
    prefix: fc.nat({ max: prefixes }),
    /** Percent of the prompt that requests share. */
    shared: fc.nat({ max: 100 }),
    maxTokens: fc.integer({ min: 1, max: maxOutputTokens }),
    leavesAfter: aborts ? fc.option(fc.nat({ max: maxOutputTokens }), { freq: 4 }) : fc.constant(null),
    priority: fc.constantFrom(...priorities),
  });
  return fc.array(drawn, { minLength: 1, maxLength: maxRequests }).map((all) => {
    let atMs = 0;
    return all.map(({ gapMs, promptLength, prefix, shared, maxTokens, leavesAfter, priority }, i) => {
      atMs += gapMs;
      const prefixLength = prefix === 0 ? 0 : Math.floor((promptLength * shared) / 100);
      const own = words(prefixes + 1 + i, prefixLength, promptLength);
      const prompt = [...words(prefix, 0, prefixLength), ...own].join(" ");
      return { atMs, prompt, promptLength, prefixLength, maxTokens, leavesAfter, priority };
    });
  });
}
