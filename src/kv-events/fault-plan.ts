/** Reads plans of `--kv-event-faults`: `lost=0.01;late@50;late-ms=500;seed=3`. */

/** Faults of published events. */
export const KV_FAULTS = [
  "lost",
  "doubled",
  "reordered",
  "late",
  "joined-late",
  "restarted",
  "unfillable",
  "replay-cut",
  "unknown-event",
  "unknown-field",
  "wrong-parent",
  "never-stored",
  "second-publisher",
] as const;
export type KvFault = (typeof KV_FAULTS)[number];

export interface KvFaultPlan {
  readonly seed: number;
  /** Delay of a late batch, in milliseconds. */
  readonly lateMs: number;
  /** Share of batches with the fault, from 0 to 1. Of replays, for `replay-cut`. */
  readonly shares: Readonly<Partial<Record<KvFault, number>>>;
  /** Number of the one batch with the fault, from 0. For `joined-late`: the first one that is sent. For `replay-cut`: batches of a replay. */
  readonly places: Readonly<Partial<Record<KvFault, number>>>;
}

const SEED_MOST = 2 ** 32 - 1;
const LATE_MS = 2000;
const LATE_MS_MOST = 600_000;
export const FAULT_PLAN_FORM = `items NAME=SHARE or NAME@BATCH, late-ms=N and seed=N, several with ";"; names are ${KV_FAULTS.join(", ")}`;

/** Returns the plan, or undefined for a text of another form. */
export function kvFaultPlan(text: string): KvFaultPlan | undefined {
  const plan = { seed: 0, lateMs: LATE_MS, shares: {} as Record<string, number>, places: {} as Record<string, number> };
  for (const item of text.split(/[;,]/).map((item) => item.trim())) {
    const [, name = "", sign = "", digits = ""] = /^([a-z-]+)([=@])(\d+\.?\d*|\.\d+)$/.exec(item) ?? [];
    const value = Number(digits);
    const isWhole = Number.isSafeInteger(value);
    const isFault = (KV_FAULTS as readonly string[]).includes(name);
    if (name === "seed" && sign === "=" && isWhole && value <= SEED_MOST) plan.seed = value;
    else if (name === "late-ms" && sign === "=" && isWhole && value <= LATE_MS_MOST) plan.lateMs = value;
    else if (isFault && sign === "@" && isWhole) plan.places[name] = value;
    else if (isFault && sign === "=" && value <= 1 && name !== "joined-late") plan.shares[name] = value;
    else return undefined;
  }
  return plan;
}
