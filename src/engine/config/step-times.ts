/** Types for the durations of steps. */

/** Duration of a step. The presets in `profiles/` have sources and forms. All times are microseconds. */
export type Timing =
  | {
      /** Steps take no time. */
      readonly kind: "none";
    }
  | {
      /** Every step takes the same time. */
      readonly kind: "constant";
      /** From arrival to first token on an idle server. */
      readonly ttftUs: number;
      /** Every decode step. */
      readonly itlUs: number;
    }
  | {
      /** Depends on the step's contents. */
      readonly kind: "linear";
      /** Every step. */
      readonly baseUs: number;
      /** Per prompt token in the step. */
      readonly prefillUs: number;
      /** Per decoding sequence in the step. */
      readonly decodeUs: number;
      /** See below. */
      readonly requestOverheadUs?: number;
    }
  | {
      /** A preset, measured on a real engine. */
      readonly kind: "table";
      /** Name of the preset. */
      readonly name: string;
      /**
       * Points of a piecewise linear function from tokens in the step to microseconds. Below the first point its value
       * applies, above the last the last slope continues.
       */
      readonly linearTokens: readonly number[];
      /** Microseconds at those points. */
      readonly linearUs: readonly number[];
      /** Prefill attention, for steps with prompt tokens: a0 + new·P + prefix·Σprefix + pairs·Σpairs. */
      readonly prefill: {
        /** a0 */
        readonly baseUs: number;
        /** Per new prompt token. */
        readonly newUs: number;
        /** Per context token before the new ones. */
        readonly prefixUs: number;
        /** Per pair of a new token and a token that it attends to. */
        readonly pairsUs: number;
      };
      /** Decode attention, for steps that decode: b0 + seq·D + ctx·Σcontext. */
      readonly decode: {
        /** b0 */
        readonly baseUs: number;
        /** Per decoding sequence. */
        readonly seqUs: number;
        /** Per token of their contexts. */
        readonly ctxUs: number;
      };
      /** True if mixed steps add max(prefill base, decode base) instead of both (form constant+new+pairs+…). */
      readonly sharedBase: boolean;
      /** Factor on everything above, for another GPU. */
      readonly scale: number;
      /** Added to every step. */
      readonly overheadUs: number;
      /** Time per request in API server, tokenizer and the like, between its arrival and the queue. Absent: 0. */
      readonly requestOverheadUs?: number;
    };

/** Noise of step durations, drawn from the seed. Absent fields: no noise of that kind. */
export interface StepNoise {
  /** Standard deviation of the logarithm of a log-normal factor with mean 1, for each step. */
  readonly jitterSigma?: number;
  /** Standard deviation of a normal factor with mean 1, from 0.3 to 1.7, for a request's time before the queue. */
  readonly overheadSigma?: number;
  /** Share of the steps that is multiplied by a Pareto factor (1 to 1000) with this exponent. */
  readonly tail?: {
    /** 0 to 1. */
    readonly share: number;
    /** Smaller values mean a heavier tail. */
    readonly alpha: number;
  };
  /** A step that spans a multiple of `everyUs`, counted from the first step, is longer by `forUs`. */
  readonly pause?: {
    /** Time between two pauses. */
    readonly everyUs: number;
    /** Length of a pause. */
    readonly forUs: number;
  };
}
