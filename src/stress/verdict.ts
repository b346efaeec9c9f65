/** What is the verdict on a client, in one case? A pure function of what was sent, what was seen, and what the client says of itself. */
import type { Allowance, StressCase } from "./cases.ts";
import type { SeenAnswer, SeenRequests } from "./seen.ts";

export const VERDICTS = [
  "ok",
  "policy",
  "void",
  "text-lost",
  "text-doubled",
  "text-garbled",
  "incomplete-unseen",
  "error-swallowed",
  "false-error",
  "raw-error",
  "hang",
  "crash",
  "retry-missing",
  "retry-early",
  "retry-storm",
  "retried-after-tokens",
  "leak",
  "usage-wrong",
  "never-called",
] as const;
export type StressVerdict = (typeof VERDICTS)[number];

export const isRed = (verdict: StressVerdict): boolean =>
  verdict !== "ok" && verdict !== "policy" && verdict !== "void";

/** What a correct reader makes of the bytes that were sent. */
export interface WireReading {
  readonly text: string;
  /** null: none. */
  readonly failure: string | null;
  readonly usage: SeenAnswer["usage"];
}

export interface Judged {
  readonly one: StressCase;
  readonly reading: WireReading;
  /** The plan's faults all acted. */
  readonly reached: boolean;
  readonly seen: SeenAnswer;
  readonly wire: SeenRequests;
  /** How often the client says that it tries again; null: it says nothing of it. */
  readonly retries: number | null;
}

/** Waits that a client may cut short without being early. */
const EARLY_SHARE = 0.9;
/** An error in what was read, rather than in how it ended. */
const SAID_ERRORS = ["J1", "J2", "H8", "A1", "A2", "A4", "A5", "H9"];

export function verdictOf(judged: Judged): { readonly verdict: StressVerdict; readonly why: string } {
  const { one, seen, wire, reached } = judged;
  const found = (verdict: StressVerdict, why: string) => ({ verdict, why });
  if (wire.requests.length === 0) return found("never-called", "no request came to the case's address");
  if (!reached) return found("void", "the answer did not reach the fault's place");
  if (seen.ended === "hung" && one.allowance !== "policy") return found("hang", "no end after the last byte");
  if (seen.ended === "crashed") return found("crash", "it ended by a signal, or without an answer");
  if (one.allowance === "policy") return found("policy", "the texts leave it open");
  const retried = retryVerdict(judged);
  if (retried !== null) return found(...retried);
  if (wire.open > 0) return found("leak", `${wire.open} connections open a second after the end`);
  return found(...answerVerdict(judged));
}

function retryVerdict({ one, wire: { requests }, retries, seen }: Judged): [StressVerdict, string] | null {
  const told = requests.slice(0, -1).findIndex(({ toldText }) => toldText);
  if (told >= 0) return ["retried-after-tokens", `request ${told + 2} came although text had arrived`];
  if (retries === null) return null;
  if (requests.length > retries + 1) return ["retry-storm", `${requests.length} requests, ${retries} retries`];
  for (const [at, { retryAfterS, atUs }] of requests.slice(0, -1).entries()) {
    const waitedS = (requests[at + 1]!.atUs - atUs) / 1e6;
    if (retryAfterS !== null && waitedS < EARLY_SHARE * retryAfterS)
      return ["retry-early", `after ${waitedS.toFixed(2)} s of ${retryAfterS} s`];
  }
  // One that is told to wait for a day does well to give up.
  const helps = one.disturbed === 1 && !(requests[0]!.retryAfterS !== null && requests[0]!.retryAfterS > 60);
  if (helps && retries > 0 && requests.length === 1 && seen.error !== null)
    return ["retry-missing", `no second request, ${retries} retries`];
  return null;
}

function answerVerdict(judged: Judged): [StressVerdict, string] {
  const { one, reading, seen } = judged;
  const allowed: Allowance = one.allowance ?? (reading.failure === null ? "same" : "error");
  if (seen.error !== null) {
    if (allowed === "same") return ["false-error", `${seen.error}, where nothing is wrong`];
    return seen.own === false
      ? ["raw-error", `${seen.error}, which is no error of the client's own`]
      : ["ok", seen.error];
  }
  if (allowed === "error") {
    const isSaid = one.plan.faults.some(({ row }) => SAID_ERRORS.includes(row.id));
    return [isSaid ? "error-swallowed" : "incomplete-unseen", `no error, where ${reading.failure}`];
  }
  const [verdict, why] = textVerdict(reading.text, seen.text);
  if (verdict !== "ok" && allowed === "either" && reading.failure !== null) return ["incomplete-unseen", why];
  if (verdict !== "ok") return [verdict, why];
  const usage = reading.usage !== null && seen.usage !== null && !sameUsage(reading.usage, seen.usage);
  return usage ? ["usage-wrong", JSON.stringify(seen.usage)] : ["ok", ""];
}

const sameUsage = (a: NonNullable<SeenAnswer["usage"]>, b: NonNullable<SeenAnswer["usage"]>) =>
  a.prompt === b.prompt && a.completion === b.completion;

const SHOWN = 60;

function textVerdict(wanted: string, text: string): [StressVerdict, string] {
  if (text === wanted) return ["ok", ""];
  let at = 0;
  while (at < text.length && text[at] === wanted[at]) at++;
  const why = `from character ${at}: ${JSON.stringify(text.slice(at, at + SHOWN))}, sent was ${JSON.stringify(wanted.slice(at, at + SHOWN))}`;
  if (isPartOf(text, wanted)) return ["text-lost", why];
  return [isPartOf(wanted, text) && repeats(wanted, text) ? "text-doubled" : "text-garbled", why];
}

/** Whether the characters of the one stand in the other, in their order. */
function isPartOf(part: string, whole: string): boolean {
  let at = 0;
  for (const character of whole) if (part.startsWith(character, at)) at += character.length;
  return at === part.length;
}

/** Whether all that is more has been said before. */
function repeats(wanted: string, text: string): boolean {
  const known = new Set(wanted);
  return [...text].every((character) => known.has(character));
}
