/** Models the clients of a trace: some let answers end below their max_tokens, some disconnect before the end. */
import { seeded } from "../../base/random.ts";

export interface TracedClientOptions {
  /** Share of answers, 0 to 1, that stop at their traced length. For the others that length is max_tokens. */
  readonly stopShare: number;
  /** Microseconds after which a client disconnects, drawn uniformly from the range; null: it waits for the end. */
  readonly patienceUs: readonly [least: number, most: number] | null;
  readonly seed: number;
}

/** Changes the seed. Synthetic requests draw lengths from the seed itself, and patience must not depend on length. */
const OWN_STREAM = 0x3c6ef372;

export const PATIENT: TracedClientOptions = { stopShare: 0, patienceUs: null, seed: 0 };

/** Behavior of the client of one request. */
export interface TracedClient {
  /** True if the answer stops before max_tokens. */
  readonly stops: boolean;
  /** Microseconds after arrival; Infinity: the client waits for the end. */
  readonly leavesAfterUs: number;
}

const PATIENT_CLIENT: TracedClient = { stops: false, leavesAfterUs: Number.POSITIVE_INFINITY };

/** Returns a function that draws the behavior of the next request's client. */
export function clients({ stopShare, patienceUs, seed }: TracedClientOptions): () => TracedClient {
  if (stopShare === 0 && patienceUs === null) return () => PATIENT_CLIENT;
  const random = seeded(seed ^ OWN_STREAM);
  const share = () => random() / 2 ** 32;
  const [least, most] = patienceUs ?? [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  return () => ({
    stops: stopShare > 0 && share() < stopShare,
    leavesAfterUs: least === most ? least : Math.round(least + share() * (most - least)),
  });
}
