/** What is the verdict on a client, in one case? A pure function of what was sent, what was seen, and what the client says of itself. */
import { CALLED, SAID } from "./answers.ts";
import type { Allowance, StressCase } from "./cases.ts";
import type { SeenAnswer, SeenCall, SeenRequests } from "./seen.ts";

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
  "slow",
  "memory",
  "tools-wrong",
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
  /** The answer is tool calls. */
  readonly calls: boolean;
}

export interface Judged {
  readonly one: StressCase;
  readonly reading: WireReading;
  /** The plan's faults all acted. */
  readonly reached: boolean;
  /** What the client says, of each time it asked; null: nobody says anything, the wire alone is judged. */
  readonly seen: readonly SeenAnswer[] | null;
  readonly wire: SeenRequests;
  /** Work that grew too fast; null: none. */
  readonly growth: ["slow" | "memory", string] | null;
  /** How often the client says that it tries again; null: it says nothing of it. */
  readonly retries: number | null;
}

/** Waits that a client may cut short without being early. */
const EARLY_SHARE = 0.9;
const HEAD_FAULTS = ["H3", "H9", "H10"];
/** Nobody is held to wait longer. */
const LONG_WAIT_S = 60;
/** An error in what was read, rather than in how it ended. */
const SAID_ERRORS = ["J1", "J2", "H8", "A1", "A2", "A4", "A5", "H9"];

export function verdictOf(judged: Judged): { readonly verdict: StressVerdict; readonly why: string } {
  const [verdict, why] = firstRed(judged);
  return { verdict, why };
}

type Found = readonly [StressVerdict, string];

function firstRed(judged: Judged): Found {
  const { one, seen, wire, reached, growth } = judged;
  const said = seen?.find(({ error }) => error !== null)?.error;
  if (wire.requests.length === 0)
    return ["never-called", `no request came to the case's address${said ? `; it says: ${said}` : ""}`];
  if (!reached) return ["void", "the answer did not reach the fault's place"];
  const all = seen ?? [];
  if (all.some(({ ended }) => ended === "hung") && one.allowance !== "policy")
    return ["hang", "no end after the last byte"];
  const crashed = all.find(({ ended }) => ended === "crashed");
  if (crashed !== undefined) return ["crash", crashed.error ?? "it ended by a signal, or without an answer"];
  if (growth !== null) return growth;
  if (one.allowance === "policy") return ["policy", "the texts leave it open"];
  const seenOnWire = retryVerdict(judged) ?? leakVerdict(wire);
  if (seenOnWire !== null) return seenOnWire;
  if (seen === null) return ["ok", "by the wire alone: nobody said what was seen"];
  const each = seen.map((answer) => answerVerdict(judged, answer));
  return each.find(([verdict]) => isRed(verdict)) ?? each[0]!;
}

const leakVerdict = ({ unfinished }: SeenRequests): Found | null =>
  unfinished > 0 ? ["leak", `${unfinished} connections open a second after the end, in the middle of an answer`] : null;

function retryVerdict({ one, wire: { requests }, retries, seen }: Judged): Found | null {
  // Whoever does not take the head has seen nothing of what stands behind it.
  const isHeadOdd = one.plan.faults.some(({ row }) => HEAD_FAULTS.includes(row.id));
  const told = one.asks > 1 || isHeadOdd ? -1 : requests.slice(0, -1).findIndex(({ toldText }) => toldText);
  if (told >= 0) return ["retried-after-tokens", `request ${told + 2} came although text had arrived`];
  if (retries === null) return null;
  if (requests.length > one.asks * (retries + 1))
    return ["retry-storm", `${requests.length} requests, ${retries} retries`];
  for (const [at, { retryAfterS, atUs }] of one.atOnce ? [] : requests.slice(0, -1).entries()) {
    const waitedS = (requests[at + 1]!.atUs - atUs) / 1e6;
    if (retryAfterS !== null && retryAfterS <= LONG_WAIT_S && waitedS < EARLY_SHARE * retryAfterS)
      return ["retry-early", `after ${waitedS.toFixed(2)} s of ${retryAfterS} s`];
  }
  // One that is told to wait for a day does well to give up.
  const helps = one.disturbed === 1 && !(requests[0]!.retryAfterS !== null && requests[0]!.retryAfterS > LONG_WAIT_S);
  const failures = seen?.filter(({ error }) => error !== null).length ?? 0;
  if (helps && retries > 0 && requests.length === 1 && failures > 0)
    return ["retry-missing", `no second request, ${retries} retries`];
  // Whoever was refused as often as it asks again may give up.
  const refused = requests.filter(({ status }) => status !== 200).length;
  if (one.atOnce && retries > 0 && refused < failures * (retries + 1))
    return ["retry-missing", `${requests.length} requests, ${retries} retries, and one of those that met gave up`];
  return null;
}

/** Judges one of the times that it asked. */
function answerVerdict(judged: Judged, seen: SeenAnswer): Found {
  const { one, reading } = judged;
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
  if (one.withTools && seen.toolCalls !== null && reading.calls) return callsVerdict(seen.toolCalls);
  // Whoever bears what a reader by the text gives up at has all that was said.
  if (allowed === "either" && reading.failure !== null && seen.text === SAID) return ["ok", ""];
  const [verdict, why] = textVerdict(reading.text, seen.text);
  if (verdict !== "ok" && allowed === "either" && reading.failure !== null) return ["incomplete-unseen", why];
  if (verdict !== "ok") return [verdict, why];
  const usage = reading.usage !== null && seen.usage !== null && !sameUsage(reading.usage, seen.usage);
  return usage ? ["usage-wrong", JSON.stringify(seen.usage)] : ["ok", ""];
}

const sameUsage = (a: NonNullable<SeenAnswer["usage"]>, b: NonNullable<SeenAnswer["usage"]>) =>
  a.prompt === b.prompt && a.completion === b.completion;

/** Arguments are compared as JSON. */
function callsVerdict(calls: readonly SeenCall[]): Found {
  const told = (list: readonly SeenCall[]) =>
    JSON.stringify(list.map((call) => [call.name, argumentsOf(call.arguments)]));
  if (told(calls) === told(CALLED)) return ["ok", ""];
  return ["tools-wrong", `${JSON.stringify(calls).slice(0, 300)}, sent were ${JSON.stringify(CALLED)}`];
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

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
