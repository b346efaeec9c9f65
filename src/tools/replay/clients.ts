/** How do those behave who send a trace's requests? Some set a limit that the answer does not reach, some do not wait for its end. */
import { seeded } from "../../base/random.ts";

export interface TracedClientOptions {
  /** Share of answers that end by themselves at their traced length; the others reach their limit there. */
  readonly stopShare: number;
  /** After so long a client leaves, if its answer has not ended; drawn evenly between the two. Null: it waits. */
  readonly patienceUs: readonly [least: number, most: number] | null;
  readonly seed: number;
}

/** Made-up requests draw their lengths from the seed itself, and patience must not go with length. */
const OWN_STREAM = 0x3c6ef372;

export const PATIENT: TracedClientOptions = { stopShare: 0, patienceUs: null, seed: 0 };

/** What one client does. */
export interface TracedClient {
  readonly stops: boolean;
  readonly leavesAfterUs: number;
}

const PATIENT_CLIENT: TracedClient = { stops: false, leavesAfterUs: Number.POSITIVE_INFINITY };

/** A draw per request, in their order. */
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
