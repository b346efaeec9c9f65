/** Decides the verdict on a client in one case, from the bytes sent, the client's report and its promises. A pure function. */
import { parsedJson } from "../../base/json-object.ts";
import { ANSWER_CALLS, ANSWER_TEXT } from "./answers.ts";
import type { StressCase } from "./cases.ts";
import type { ClientReport, ReportedCall, WireRecord } from "./seen.ts";

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
  "reasoning-wrong",
  "usage-wrong",
  "never-called",
] as const;
export type StressVerdict = (typeof VERDICTS)[number];

export const isRed = (verdict: StressVerdict): boolean =>
  verdict !== "ok" && verdict !== "policy" && verdict !== "void";

/** The content that a correct client reads from the bytes that were sent. */
export interface WireReading {
  readonly text: string;
  /** Why a correct client reports an error, as a clause: "an event is not JSON". Null if it reports none. */
  readonly failure: string | null;
  readonly usage: ClientReport["usage"];
  /** True if the answer consists of tool calls. */
  readonly calls: boolean;
  /** Reasoning text. "" if the answer has none. */
  readonly reasoning: string;
}

export const NOTHING_READ: WireReading = { text: "", failure: null, usage: null, calls: false, reasoning: "" };

export interface CaseEvidence {
  readonly stressCase: StressCase;
  readonly reading: WireReading;
  /** True if all faults of the plan acted. */
  readonly reached: boolean;
  /** The client's report for each time it asked. Null if it reports nothing, so that only the wire is judged. */
  readonly seen: readonly ClientReport[] | null;
  readonly wire: WireRecord;
  /** Verdict on work that grew too fast. Null if it did not. */
  readonly growth: ["slow" | "memory", string] | null;
  /** Maximum number of retries that the client promises. Null if unknown. */
  readonly retries: number | null;
}

/** Share of a Retry-After after which a retry no longer counts as early. */
const EARLY_SHARE = 0.9;
const HEAD_FAULTS = ["H3", "H9", "H10"];
/** Longest Retry-After, in seconds, that clients must obey. */
const LONG_WAIT_S = 60;
/** Faults that report an error in the answer, instead of cutting it off. */
const STATED_ERRORS = ["J1", "J2", "H8", "A1", "A2", "A4", "A5", "H9"];
/** Faults that a client may repair. The undamaged text is then accepted, too. */
const REPAIRABLE = ["S14", "J17"];
/** A conflict (RFC 9110, 15.5.10) does not pass by itself, so no retry is required. */
const CONFLICT = 409;

export function verdictOf(evidence: CaseEvidence): { readonly verdict: StressVerdict; readonly why: string } {
  const [verdict, why] = firstRed(evidence);
  return { verdict, why };
}

type VerdictReason = readonly [StressVerdict, string];

function firstRed(evidence: CaseEvidence): VerdictReason {
  const { stressCase, seen, wire, reached, growth } = evidence;
  const clientError = seen?.find(({ error }) => error !== null)?.error;
  if (wire.requests.length === 0)
    return [
      "never-called",
      `No request came to the case's address.${clientError ? ` The client says: ${clientError}` : ""}`,
    ];
  if (!reached) return ["void", "The answer did not reach the fault's place."];
  const all = seen ?? [];
  if (all.some(({ ended }) => ended === "hung") && stressCase.allows !== "policy")
    return ["hang", "The client did not end after the last byte."];
  const crashed = all.find(({ ended }) => ended === "crashed");
  if (crashed !== undefined)
    return ["crash", `The client crashed: ${crashed.error ?? "it ended by a signal, or without an answer"}`];
  if (growth !== null) return growth;
  if (stressCase.allows === "policy") return ["policy", "No standard says what a client must do here."];
  const seenOnWire = retryVerdict(evidence) ?? leakVerdict(wire);
  if (seenOnWire !== null) return seenOnWire;
  if (seen === null) return ["ok", "The wire alone was judged: nobody reported what the client saw."];
  const each = seen.map((answer) => answerVerdict(evidence, answer));
  return each.find(([verdict]) => isRed(verdict)) ?? each[0]!;
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;

const leakVerdict = ({ unfinished }: WireRecord): VerdictReason | null =>
  unfinished > 0
    ? ["leak", `A second after the end, ${counted(unfinished, "connection")} stood open in the middle of an answer.`]
    : null;

function retryVerdict({ stressCase, wire: { requests }, retries, seen }: CaseEvidence): VerdictReason | null {
  // A client that refuses the head has not seen the text after it.
  const isHeadOdd = stressCase.plan.faults.some(({ row }) => HEAD_FAULTS.includes(row.id));
  const textual = stressCase.asks > 1 || isHeadOdd ? -1 : requests.slice(0, -1).findIndex(({ toldText }) => toldText);
  if (textual >= 0) return ["retried-after-tokens", `Request ${textual + 2} came although text had arrived.`];
  if (retries === null) return null;
  const promise = `and the client says that it tries again ${retries === 1 ? "once" : `${retries} times`}.`;
  // A request that follows a redirect is not a retry.
  const attempts = requests.filter(({ status }) => status < 300 || status >= 400).length;
  if (attempts > stressCase.asks * (retries + 1))
    return ["retry-storm", `${counted(attempts, "attempt")} came, ${promise}`];
  for (const [at, { retryAfterS, atUs }] of stressCase.atOnce ? [] : requests.slice(0, -1).entries()) {
    const waitedS = (requests[at + 1]!.atUs - atUs) / 1e6;
    if (retryAfterS !== null && retryAfterS <= LONG_WAIT_S && waitedS < EARLY_SHARE * retryAfterS)
      return [
        "retry-early",
        `The next request came after ${waitedS.toFixed(2)} s, and Retry-After said ${retryAfterS} s.`,
      ];
  }
  // A connection that ends without a status may have served the request. RFC 9110, 9.2.2 then advises against repeating a
  // POST.
  const [{ status, retryAfterS }] = requests as [WireRecord["requests"][number]];
  const helps =
    stressCase.disturbed === 1 && status !== 200 && status !== CONFLICT && (retryAfterS ?? 0) <= LONG_WAIT_S;
  const failures = seen?.filter(({ error }) => error !== null).length ?? 0;
  if (helps && retries > 0 && requests.length === 1 && failures > 0)
    return ["retry-missing", `No second request came, ${promise}`];
  // A client may give up after it was refused as often as it promises to try.
  const refused = requests.filter((request) => request.status !== 200).length;
  if (stressCase.atOnce && retries > 0 && refused < failures * (retries + 1))
    return ["retry-missing", `One of the requests that met gave up after too few attempts, ${promise}`];
  return null;
}

/** Judges one of the reports of the client. */
function answerVerdict(evidence: CaseEvidence, seen: ClientReport): VerdictReason {
  const { stressCase, reading } = evidence;
  const mayFail = stressCase.allows === "either" || reading.failure !== null;
  if (seen.error !== null) {
    if (!mayFail) return ["false-error", `The client reported an error, but the answer is whole: ${seen.error}`];
    return seen.own === false
      ? ["raw-error", `The client reported an error that is not of its own kind: ${seen.error}`]
      : ["ok", `The client reported an error: ${seen.error}`];
  }
  const ids = stressCase.plan.faults.map(({ row }) => row.id);
  if (stressCase.allows === null && reading.failure !== null) {
    const isSaid = ids.some((id) => STATED_ERRORS.includes(id));
    return [isSaid ? "error-swallowed" : "incomplete-unseen", `The client reported no error, but ${reading.failure}.`];
  }
  if (stressCase.withTools && seen.toolCalls !== null && reading.calls) return callsVerdict(seen.toolCalls);
  // A client that tolerates an error at which our reader stops may have the whole text.
  const isMeant = reading.failure !== null || ids.some((id) => REPAIRABLE.includes(id));
  if (stressCase.allows === "either" && isMeant && seen.text === ANSWER_TEXT) return READ;
  const [verdict, why] = textVerdict(reading.text, seen.text);
  if (verdict !== "ok" && stressCase.allows === "either" && reading.failure !== null)
    return ["incomplete-unseen", `The client reported no error, but ${reading.failure}. ${why}`];
  if (verdict !== "ok") return [verdict, why];
  return reasoningVerdict(reading, seen) ?? usageVerdict(reading, seen) ?? READ;
}

const READ: VerdictReason = ["ok", "The client read the text as it was sent."];

/** Reading reasoning is optional, and no standard names its field. So none at all is accepted. */
function reasoningVerdict({ reasoning }: WireReading, seen: ClientReport): VerdictReason | null {
  if (seen.reasoning === null || seen.reasoning === "" || seen.reasoning === reasoning) return null;
  return ["reasoning-wrong", `The reasoning ${difference(reasoning, seen.reasoning)}`];
}

function usageVerdict({ usage }: WireReading, seen: ClientReport): VerdictReason | null {
  if (usage === null || seen.usage === null || sameUsage(usage, seen.usage)) return null;
  return ["usage-wrong", `The client counted ${JSON.stringify(seen.usage)}, sent was ${JSON.stringify(usage)}.`];
}

const sameUsage = (a: NonNullable<ClientReport["usage"]>, b: NonNullable<ClientReport["usage"]>) =>
  a.prompt === b.prompt && a.completion === b.completion;

/** Compares tool calls. Arguments are compared as JSON. */
function callsVerdict(calls: readonly ReportedCall[]): VerdictReason {
  const toText = (list: readonly ReportedCall[]) =>
    JSON.stringify(list.map((call) => [call.name, parsedJson(call.arguments) ?? call.arguments]));
  if (toText(calls) === toText(ANSWER_CALLS)) return ["ok", "The client read the tool calls as they were sent."];
  return [
    "tools-wrong",
    `The client read the tool calls ${JSON.stringify(calls).slice(0, 300)}, sent were ${JSON.stringify(ANSWER_CALLS)}.`,
  ];
}

const SHOWN_CHARACTERS = 60;

function textVerdict(expected: string, text: string): VerdictReason {
  if (text === expected) return READ;
  const why = `The text ${difference(expected, text)}`;
  if (isPartOf(text, expected)) return ["text-lost", why];
  return [isPartOf(expected, text) && repeats(expected, text) ? "text-doubled" : "text-garbled", why];
}

/** Says where two texts differ. The result is the end of a sentence. */
function difference(expected: string, text: string): string {
  let at = 0;
  while (at < text.length && text[at] === expected[at]) at++;
  const [read, sent] = [text, expected].map((side) => JSON.stringify(side.slice(at, at + SHOWN_CHARACTERS)));
  return `differs from character ${at}: the client read ${read}, sent was ${sent}.`;
}

/** Reports whether the characters of `part` occur in `whole` in the same order. */
function isPartOf(part: string, whole: string): boolean {
  let at = 0;
  for (const character of whole) if (part.startsWith(character, at)) at += character.length;
  return at === part.length;
}

/** Reports whether the text has no characters other than the expected ones. */
function repeats(expected: string, text: string): boolean {
  const known = new Set(expected);
  return [...text].every((character) => known.has(character));
}
