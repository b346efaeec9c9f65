/** The verdict on a client in one case: a pure function of the bytes sent, what the client saw, and what it says of itself. */
import { CALLED, SAID } from "./answers.ts";
import type { StressCase } from "./cases.ts";
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
  "reasoning-wrong",
  "usage-wrong",
  "never-called",
] as const;
export type StressVerdict = (typeof VERDICTS)[number];

export const isRed = (verdict: StressVerdict): boolean =>
  verdict !== "ok" && verdict !== "policy" && verdict !== "void";

/** What a correct reader makes of the bytes that were sent. */
export interface WireReading {
  readonly text: string;
  /** Why the reader reports an error, as a clause: "an event is not JSON". null: it reports none. */
  readonly failure: string | null;
  readonly usage: SeenAnswer["usage"];
  /** True if the answer is tool calls. */
  readonly calls: boolean;
  /** "": the answer has none. */
  readonly reasoning: string;
}

export const NOTHING_READ: WireReading = { text: "", failure: null, usage: null, calls: false, reasoning: "" };

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
/** Faults that say an error, instead of cutting the answer off. */
const SAID_ERRORS = ["J1", "J2", "H8", "A1", "A2", "A4", "A5", "H9"];
/** Faults whose text a client may repair: the text as meant is right, too. */
const REPAIRABLE = ["S14", "J17"];
/** A conflict (RFC 9110, 15.5.10) does not pass by itself: no client is held to try again. */
const CONFLICT = 409;

export function verdictOf(judged: Judged): { readonly verdict: StressVerdict; readonly why: string } {
  const [verdict, why] = firstRed(judged);
  return { verdict, why };
}

type Found = readonly [StressVerdict, string];

function firstRed(judged: Judged): Found {
  const { one, seen, wire, reached, growth } = judged;
  const said = seen?.find(({ error }) => error !== null)?.error;
  if (wire.requests.length === 0)
    return ["never-called", `No request came to the case's address.${said ? ` The client says: ${said}` : ""}`];
  if (!reached) return ["void", "The answer did not reach the fault's place."];
  const all = seen ?? [];
  if (all.some(({ ended }) => ended === "hung") && one.allows !== "policy")
    return ["hang", "The client did not end after the last byte."];
  const crashed = all.find(({ ended }) => ended === "crashed");
  if (crashed !== undefined)
    return ["crash", `The client crashed: ${crashed.error ?? "it ended by a signal, or without an answer"}`];
  if (growth !== null) return growth;
  if (one.allows === "policy") return ["policy", "No text says what a client must do here."];
  const seenOnWire = retryVerdict(judged) ?? leakVerdict(wire);
  if (seenOnWire !== null) return seenOnWire;
  if (seen === null) return ["ok", "The wire alone was judged: nobody reported what the client saw."];
  const each = seen.map((answer) => answerVerdict(judged, answer));
  return each.find(([verdict]) => isRed(verdict)) ?? each[0]!;
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;

const leakVerdict = ({ unfinished }: SeenRequests): Found | null =>
  unfinished > 0
    ? ["leak", `A second after the end, ${counted(unfinished, "connection")} stood open in the middle of an answer.`]
    : null;

function retryVerdict({ one, wire: { requests }, retries, seen }: Judged): Found | null {
  // A client that refuses the head has seen nothing of the text after it.
  const isHeadOdd = one.plan.faults.some(({ row }) => HEAD_FAULTS.includes(row.id));
  const told = one.asks > 1 || isHeadOdd ? -1 : requests.slice(0, -1).findIndex(({ toldText }) => toldText);
  if (told >= 0) return ["retried-after-tokens", `Request ${told + 2} came although text had arrived.`];
  if (retries === null) return null;
  const promise = `and the client says that it tries again ${retries === 1 ? "once" : `${retries} times`}.`;
  // To follow a redirect is not to try again.
  const attempts = requests.filter(({ status }) => status < 300 || status >= 400).length;
  if (attempts > one.asks * (retries + 1)) return ["retry-storm", `${counted(attempts, "attempt")} came, ${promise}`];
  for (const [at, { retryAfterS, atUs }] of one.atOnce ? [] : requests.slice(0, -1).entries()) {
    const waitedS = (requests[at + 1]!.atUs - atUs) / 1e6;
    if (retryAfterS !== null && retryAfterS <= LONG_WAIT_S && waitedS < EARLY_SHARE * retryAfterS)
      return [
        "retry-early",
        `The next request came after ${waitedS.toFixed(2)} s, and Retry-After said ${retryAfterS} s.`,
      ];
  }
  // A connection that ends without a status may have served the request: RFC 9110, 9.2.2 says not to repeat a POST then.
  const [{ status, retryAfterS }] = requests as [SeenRequests["requests"][number]];
  const helps = one.disturbed === 1 && status !== 200 && status !== CONFLICT && (retryAfterS ?? 0) <= LONG_WAIT_S;
  const failures = seen?.filter(({ error }) => error !== null).length ?? 0;
  if (helps && retries > 0 && requests.length === 1 && failures > 0)
    return ["retry-missing", `No second request came, ${promise}`];
  // A client that was refused as often as it tries again may give up.
  const refused = requests.filter((request) => request.status !== 200).length;
  if (one.atOnce && retries > 0 && refused < failures * (retries + 1))
    return ["retry-missing", `One of the requests that met gave up after too few attempts, ${promise}`];
  return null;
}

/** Judges one of the times that the client asked. */
function answerVerdict(judged: Judged, seen: SeenAnswer): Found {
  const { one, reading } = judged;
  const mayFail = one.allows === "either" || reading.failure !== null;
  if (seen.error !== null) {
    if (!mayFail) return ["false-error", `The client reported an error, but the answer is whole: ${seen.error}`];
    return seen.own === false
      ? ["raw-error", `The client reported an error that is not of its own kind: ${seen.error}`]
      : ["ok", `The client reported an error: ${seen.error}`];
  }
  const ids = one.plan.faults.map(({ row }) => row.id);
  if (one.allows === null && reading.failure !== null) {
    const isSaid = ids.some((id) => SAID_ERRORS.includes(id));
    return [isSaid ? "error-swallowed" : "incomplete-unseen", `The client reported no error, but ${reading.failure}.`];
  }
  if (one.withTools && seen.toolCalls !== null && reading.calls) return callsVerdict(seen.toolCalls);
  // A client that bears what our reader gives up at has all that was said.
  const isMeant = reading.failure !== null || ids.some((id) => REPAIRABLE.includes(id));
  if (one.allows === "either" && isMeant && seen.text === SAID) return READ;
  const [verdict, why] = textVerdict(reading.text, seen.text);
  if (verdict !== "ok" && one.allows === "either" && reading.failure !== null)
    return ["incomplete-unseen", `The client reported no error, but ${reading.failure}. ${why}`];
  if (verdict !== "ok") return [verdict, why];
  return reasoningVerdict(reading, seen) ?? usageVerdict(reading, seen) ?? READ;
}

const READ: Found = ["ok", "The client read the text as it was sent."];

/** No text requires a client to read reasoning, or says which field has it: none at all is right. */
function reasoningVerdict({ reasoning }: WireReading, seen: SeenAnswer): Found | null {
  if (seen.reasoning === null || seen.reasoning === "" || seen.reasoning === reasoning) return null;
  return ["reasoning-wrong", `The reasoning ${difference(reasoning, seen.reasoning)}`];
}

function usageVerdict({ usage }: WireReading, seen: SeenAnswer): Found | null {
  if (usage === null || seen.usage === null || sameUsage(usage, seen.usage)) return null;
  return ["usage-wrong", `The client counted ${JSON.stringify(seen.usage)}, sent was ${JSON.stringify(usage)}.`];
}

const sameUsage = (a: NonNullable<SeenAnswer["usage"]>, b: NonNullable<SeenAnswer["usage"]>) =>
  a.prompt === b.prompt && a.completion === b.completion;

/** Arguments are compared as JSON. */
function callsVerdict(calls: readonly SeenCall[]): Found {
  const told = (list: readonly SeenCall[]) =>
    JSON.stringify(list.map((call) => [call.name, argumentsOf(call.arguments)]));
  if (told(calls) === told(CALLED)) return ["ok", "The client read the tool calls as they were sent."];
  return [
    "tools-wrong",
    `The client read the tool calls ${JSON.stringify(calls).slice(0, 300)}, sent were ${JSON.stringify(CALLED)}.`,
  ];
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const SHOWN = 60;

function textVerdict(wanted: string, text: string): Found {
  if (text === wanted) return READ;
  const why = `The text ${difference(wanted, text)}`;
  if (isPartOf(text, wanted)) return ["text-lost", why];
  return [isPartOf(wanted, text) && repeats(wanted, text) ? "text-doubled" : "text-garbled", why];
}

/** Says where two texts part: the end of a sentence. */
function difference(wanted: string, text: string): string {
  let at = 0;
  while (at < text.length && text[at] === wanted[at]) at++;
  const [read, sent] = [text, wanted].map((one) => JSON.stringify(one.slice(at, at + SHOWN)));
  return `differs from character ${at}: the client read ${read}, sent was ${sent}.`;
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
