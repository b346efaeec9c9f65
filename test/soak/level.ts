/** Judges whether a series of samples levels off. The functions are pure, so that tests can use artificial series. */

export interface Sample {
  /** Minutes since the traffic began. */
  readonly minute: number;
  readonly residentMb: number;
  readonly descriptors: number;
}

export interface Level {
  /** Median of resident memory in the window that begins at the middle of the run. */
  readonly middleMb: number;
  /** Median in the last window. */
  readonly endMb: number;
  readonly growthMb: number;
}

/** A window is an eighth of the run: 15 minutes of two hours. */
const WINDOW_SHARE = 1 / 8;

/** Compares the last window with the one that begins at the middle: minutes 105 to 120 with 60 to 75. Throws if one is empty. */
export function levelOf(samples: readonly Sample[], minutes: number): Level {
  const length = minutes * WINDOW_SHARE;
  const within = (from: number) => samples.filter(({ minute }) => minute >= from && minute < from + length);
  const middleMb = median(within(minutes / 2).map(({ residentMb }) => residentMb));
  const endMb = median(within(minutes - length).map(({ residentMb }) => residentMb));
  return { middleMb, endMb, growthMb: endMb - middleMb };
}

function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error("no samples in the window");
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
