/** What has a client seen of an answer? What it says itself, in one line of JSON, and what stood on the wire. */

export interface SeenCall {
  readonly name: string;
  /** JSON, as the client put it together. */
  readonly arguments: string;
}

/** Null: the client does not say. */
export interface SeenAnswer {
  readonly text: string;
  readonly finish: string | null;
  readonly usage: { readonly prompt: number; readonly completion: number } | null;
  readonly toolCalls: readonly SeenCall[] | null;
  /** Reasoning, which is not part of `text`; "": none. */
  readonly reasoning: string | null;
  /** What kind of error it saw; null: none. */
  readonly error: string | null;
  /** The error is of a kind that is the client's own; null: it does not say. */
  readonly own: boolean | null;
  /** How the client itself ended, where that is no answer. */
  readonly ended: "answered" | "crashed" | "hung";
  /** What its process took for it; null: it has none of its own. */
  readonly cost: SeenCost | null;
}

export interface SeenCost {
  readonly cpuMs: number;
  /** Largest resident set while it was at it. */
  readonly peakBytes: number;
}

/** A request of a case, as the server had it. Microseconds. */
export interface SeenRequest {
  readonly atUs: number;
  readonly status: number;
  /** The client's port. */
  readonly port: number;
  /** Events with text had left before its connection ended, or it was complete. */
  readonly toldText: boolean;
  /** Seconds of its Retry-After; null: none. */
  readonly retryAfterS: number | null;
}

export interface SeenRequests {
  readonly requests: readonly SeenRequest[];
  /** Connections that are open a while after the end although their answer is not complete. */
  readonly unfinished: number;
  /** Connections that are open then, whatever for. */
  readonly open: number;
}

const NOTHING: SeenAnswer = {
  text: "",
  finish: null,
  usage: null,
  toolCalls: null,
  reasoning: null,
  error: null,
  own: null,
  ended: "answered",
  cost: null,
};

/** A client's answer of which so much is known. */
export const seenAnswer = (known: Partial<SeenAnswer>): SeenAnswer => ({ ...NOTHING, ...known });

export const SEEN_SHAPE =
  '{"text": TEXT, "finish": TEXT or null, "usage": {"prompt": N, "completion": N} or null, "toolCalls": [{"name": TEXT, "arguments": TEXT}] or null, "reasoning": TEXT or null, "error": null or {"kind": TEXT, "message": TEXT, "own": true or false}}';

/** What a client says of a case; null: it is not of that shape. Only `text` has to be there. */
export function seenIn(json: unknown): SeenAnswer | null {
  if (!isRecord(json) || typeof json.text !== "string") return null;
  const { finish = null, usage = null, toolCalls = null, reasoning = null, error = null } = json;
  if (finish !== null && typeof finish !== "string") return null;
  if (reasoning !== null && typeof reasoning !== "string") return null;
  if (usage !== null && !(isRecord(usage) && isCount(usage.prompt) && isCount(usage.completion))) return null;
  if (!["answered", "crashed", "hung"].includes((json.ended as string | undefined) ?? "answered")) return null;
  const isCall = (one: unknown) => isRecord(one) && typeof one.name === "string" && typeof one.arguments === "string";
  if (toolCalls !== null && !(Array.isArray(toolCalls) && toolCalls.every(isCall))) return null;
  if (error !== null && !(isRecord(error) && typeof error.kind === "string")) return null;
  const said = isRecord(error) ? `${error.kind}: ${typeof error.message === "string" ? error.message : ""}` : null;
  return seenAnswer({
    text: json.text,
    finish,
    usage: usage as SeenAnswer["usage"],
    toolCalls: toolCalls as SeenAnswer["toolCalls"],
    reasoning,
    error: said,
    own: isRecord(error) && typeof error.own === "boolean" ? error.own : null,
    ended: (json.ended as SeenAnswer["ended"] | undefined) ?? "answered",
  });
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isCount = (value: unknown) => typeof value === "number" && value >= 0;
