/** Types of the times of steps. */

/** How long a step takes. Sources and forms: the compiled presets in `profiles/`. All times in microseconds. */
export type Timing =
  | {
      /** Steps take no time. */
      readonly kind: "none";
    }
  | {
      /** Steps take the same time, whatever is in them. */
      readonly kind: "constant";
      /** From the arrival to the first token on an idle server. */
      readonly ttftUs: number;
      /** Every step of decoding. */
      readonly itlUs: number;
    }
  | {
      /** By what is in the step. */
      readonly kind: "linear";
      /** Any step. */
      readonly baseUs: number;
      /** Per prompt token in it. */
      readonly prefillUs: number;
      /** Per sequence in it that decodes. */
      readonly decodeUs: number;
      /** As below. */
      readonly requestOverheadUs?: number;
    }
  | {
      /** A preset: measured on a real engine. */
      readonly kind: "table";
      /** The preset's. */
      readonly name: string;
      /** Piecewise linear: tokens in the step -> microseconds; below the first point its value, above the last the last slope. */
      readonly linearTokens: readonly number[];
      /** At those points. */
      readonly linearUs: readonly number[];
      /** Prefill attention, paid when the step has prompt tokens: a0 + new·P + prefix·Σprefix + pairs·Σpairs. */
      readonly prefill: {
        /** a0 */
        readonly baseUs: number;
        /** Per new prompt token. */
        readonly newUs: number;
        /** Per token before them in the context. */
        readonly prefixUs: number;
        /** Per pair of a new token and one that it looks at. */
        readonly pairsUs: number;
      };
      /** Decode attention, paid when the step decodes: b0 + seq·D + ctx·Σcontext. */
      readonly decode: {
        /** b0 */
        readonly baseUs: number;
        /** Per sequence that decodes. */
        readonly seqUs: number;
        /** Per token of their contexts. */
        readonly ctxUs: number;
      };
      /** Mixed steps pay max(prefill base, decode base) once instead of both (form constant+new+pairs+…). */
      readonly sharedBase: boolean;
      /** All of that times this: another GPU. */
      readonly scale: number;
      /** Added to each step. */
      readonly overheadUs: number;
      /**
       * What API server, tokenizer and the like take of each request: it has arrived and does not wait yet. Absent: nothing.
       */
      readonly requestOverheadUs?: number;
    };

/** How steps stray from their formula, drawn from the seed. Each absent: not at all. */
export interface StepNoise {
  /** Each step is multiplied by a log-normal factor of mean 1: the standard deviation of its logarithm. */
  readonly jitterSigma?: number;
  /** What a request waits before the queue is multiplied by a normal factor of mean 1 with this deviation, 0.3 to 1.7. */
  readonly overheadSigma?: number;
  /** This share of the steps is multiplied by a Pareto factor (least 1, at most 1000) with this exponent. */
  readonly tail?: {
    /** 0 to 1. */
    readonly share: number;
    /** The smaller, the heavier the tail. */
    readonly alpha: number;
  };
  /** A step that goes on at a multiple of `everyUs` since the first one takes so much longer. */
  readonly pause?: {
    /** From one to the next. */
    readonly everyUs: number;
    /** So much longer. */
    readonly forUs: number;
  };
}
