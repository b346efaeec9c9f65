/**
 * fast-check arbitraries of request mixes: prompts with shared prefixes, lengths, clients that disconnect, arrival times,
 * priorities. They shrink towards few and short requests whose clients do not disconnect.
 */
import fc from "fast-check";

/** One request of a mix. */
export interface MixRequest {
  /** Milliseconds after the start of the mix. Requests are sorted by it. */
  readonly atMs: number;
  /** The text, about one token per word. The shared prefix is exactly equal in all prompts that share it. */
  readonly prompt: string;
  /** Words of the prompt. */
  readonly promptLength: number;
  /** Words at the start of the prompt that other requests with the same prefix also have. 0 if none. */
  readonly prefixLength: number;
  /** Maximum number of output tokens, sent as `max_tokens`. */
  readonly maxTokens: number;
  /** Number of stream chunks after which the client disconnects. 0: before the first chunk. Null: never. */
  readonly leavesAfter: number | null;
  /** vLLM's priority. Smaller numbers are more urgent. */
  readonly priority: number;
}

/** Requests in the order of their arrivals. */
export type Mix = readonly MixRequest[];

/** Bounds of the generated mixes. */
export interface MixOptions {
  /** Maximum number of requests of a mix. Default 20. */
  readonly maxRequests?: number;
  /** Maximum number of words of a prompt. Default 200. */
  readonly maxPromptLength?: number;
  /** Maximum number of output tokens of a request. Default 32. */
  readonly maxOutputTokens?: number;
  /** Number of different shared prefixes. Default 3; 0 for none. */
  readonly prefixes?: number;
  /** Maximum number of milliseconds between two arrivals. Default 20. */
  readonly maxGapMs?: number;
  /** True if clients may disconnect. Default true. */
  readonly aborts?: boolean;
  /** Priorities to choose from. Default [0], so that all are equal. */
  readonly priorities?: readonly number[];
}

const WORDS = "the of and to in is you that it he was for on are as with his they at be this from have or by".split(
  " ",
);
/** Multiplier that gives each text its own words, so that two prefixes or two requests never continue alike. */
const STREAMS = 1_000_003;

/** Returns words `from` to `to` of an endless text. `stream` selects the text. */
function words(stream: number, from: number, to: number): string[] {
  const result: string[] = [];
  for (let i = from; i < to; i++) {
    const mixed = Math.imul(stream * STREAMS + i + 1, 0x9e3779b1) >>> 0;
    result.push(WORDS[(mixed >>> 16) % WORDS.length]!);
  }
  return result;
}

/** Returns an arbitrary of mixes of 1 to `maxRequests` requests. */
export function requestMixes(options: MixOptions = {}): fc.Arbitrary<Mix> {
  const { maxRequests = 20, maxPromptLength = 200, maxOutputTokens = 32, maxGapMs = 20 } = options;
  const { prefixes = 3, aborts = true, priorities = [0] } = options;
  const drawn = fc.record({
    gapMs: fc.nat({ max: maxGapMs }),
    promptLength: fc.integer({ min: 1, max: maxPromptLength }),
    prefix: fc.nat({ max: prefixes }),
    /** Percent of the prompt that is the shared prefix. */
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
      const rest = words(prefixes + 1 + i, prefixLength, promptLength);
      const prompt = [...words(prefix, 0, prefixLength), ...rest].join(" ");
      return { atMs, prompt, promptLength, prefixLength, maxTokens, leavesAfter, priority };
    });
  });
}
