/** The two records of an answer: the report of the client, as a line of JSON, and the requests that the server received. */
import { isObject } from "../../base/json-object.ts";

export interface ReportedCall {
  readonly name: string;
  /** Arguments as JSON, in the client's spelling. */
  readonly arguments: string;
}

/** Report of a client. A field is null if the client does not report it. */
export interface ClientReport {
  readonly text: string;
  readonly finish: string | null;
  readonly usage: { readonly prompt: number; readonly completion: number } | null;
  readonly toolCalls: readonly ReportedCall[] | null;
  /** Reasoning, which is not part of `text`. "" if there is none. */
  readonly reasoning: string | null;
  /** Kind and message of the error that the client reported. Null if it reported none. */
  readonly error: string | null;
  /** True if the error is of the client's own error type. Null if the client does not say. */
  readonly own: boolean | null;
  /** End of the client process. */
  readonly ended: "answered" | "crashed" | "hung";
  /** Cost of the answer in the client's process. Null if it has no process of its own, or if it was not measured. */
  readonly cost: ClientCost | null;
}

export interface ClientCost {
  readonly cpuMs: number;
  /** Largest resident set during the answer, in bytes. */
  readonly peakBytes: number;
}

/** A request of a case, as the server received it. Times are in microseconds. */
export interface CaseRequestRecord {
  readonly atUs: number;
  readonly status: number;
  /** Port of the client. */
  readonly port: number;
  /** True if events with text were sent before the answer ended. */
  readonly toldText: boolean;
  /** Seconds in the Retry-After header of the answer. Null if there is none. */
  readonly retryAfterS: number | null;
}

export interface WireRecord {
  readonly requests: readonly CaseRequestRecord[];
  /** Number of connections that are still open a while after the end, in the middle of an answer. */
  readonly unfinished: number;
  /** Number of connections that are still open then, for any reason. */
  readonly open: number;
}

const NOTHING: ClientReport = {
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

/** Returns a report with the known fields. Others are empty. */
export const clientReport = (known: Partial<ClientReport>): ClientReport => ({ ...NOTHING, ...known });

export const REPORT_SHAPE =
  '{"text": TEXT, "finish": TEXT or null, "usage": {"prompt": N, "completion": N} or null, "toolCalls": [{"name": TEXT, "arguments": TEXT}] or null, "reasoning": TEXT or null, "error": null or {"kind": TEXT, "message": TEXT, "own": true or false}}';

/** Parses a client's report. Null if it has another shape. Only `text` is required. */
export function reportIn(json: unknown): ClientReport | null {
  if (!isObject(json) || typeof json.text !== "string") return null;
  const { finish = null, usage = null, toolCalls = null, reasoning = null, error = null } = json;
  if (finish !== null && typeof finish !== "string") return null;
  if (reasoning !== null && typeof reasoning !== "string") return null;
  if (usage !== null && !(isObject(usage) && isCount(usage.prompt) && isCount(usage.completion))) return null;
  if (!["answered", "crashed", "hung"].includes((json.ended as string | undefined) ?? "answered")) return null;
  const isCall = (call: unknown) =>
    isObject(call) && typeof call.name === "string" && typeof call.arguments === "string";
  if (toolCalls !== null && !(Array.isArray(toolCalls) && toolCalls.every(isCall))) return null;
  if (error !== null && !(isObject(error) && typeof error.kind === "string")) return null;
  const errorText = isObject(error) ? `${error.kind}: ${typeof error.message === "string" ? error.message : ""}` : null;
  return clientReport({
    text: json.text,
    finish,
    usage: usage as ClientReport["usage"],
    toolCalls: toolCalls as ClientReport["toolCalls"],
    reasoning,
    error: errorText,
    own: isObject(error) && typeof error.own === "boolean" ? error.own : null,
    ended: (json.ended as ClientReport["ended"] | undefined) ?? "answered",
  });
}

const isCount = (value: unknown) => typeof value === "number" && value >= 0;
