/** Builds the answers of faults that replace the server's answer: errors, redirects and HTML pages (the stage `instead`). */

import type { Plan, PlannedFault } from "./plan/types.ts";
import { BAD_GATEWAY } from "./stages/http.ts";

/** Facts about a request on which a replaced answer may depend. */
interface Attempt {
  /** Number of earlier attempts of the same request. */
  readonly before: number;
  /** Number of other requests in progress on the server. */
  readonly open: number;
  /** Path and query of the request. */
  readonly target: string;
  readonly epochSeconds: number;
}

export interface SubstituteAnswer {
  /** Id of the fault. */
  readonly id: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

type AnswerContent = Omit<SubstituteAnswer, "id">;

const DAY_S = 86_400;
const JSON_TYPE = { "content-type": "application/json" };
const TEXT_TYPE = { "content-type": "text/plain; charset=utf-8" };
const HTML_TYPE = { "content-type": "text/html" };
/** Query parameter that a redirect adds to its target. A request that has the parameter is not redirected again. */
const FOLLOWED = "understudy-followed=1";
const PHRASES: Readonly<Record<number, string>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  408: "Request Timeout",
  409: "Conflict",
  413: "Request Entity Too Large",
  422: "Unprocessable Entity",
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  529: "Overloaded",
};

/** Returns the answer that replaces the server's answer, or null if the server should answer by itself. */
export function substituteAnswer(plan: Plan, attempt: Attempt): SubstituteAnswer | null {
  for (const fault of plan.faults) {
    const answer = ANSWERS[fault.row.id]?.(fault, attempt) ?? null;
    if (answer !== null) return { id: fault.row.id, ...answer };
  }
  return null;
}

const ANSWERS: Readonly<Record<string, (fault: PlannedFault, attempt: Attempt) => AnswerContent | null>> = {
  A1: ({ values }, { epochSeconds }) => ({
    ...error(429),
    headers: { ...JSON_TYPE, ...retryAfter(values.how as string, epochSeconds) },
  }),
  A2({ values: { how, body } }) {
    const status = Number(how);
    if (body === "json") return error(status);
    return { status, headers: TEXT_TYPE, body: body === "text" ? `${PHRASES[status]}\n` : "" };
  },
  A3: ({ values }, { open }) =>
    open >= (values.open as number) ? { ...error(429), headers: { ...JSON_TYPE, "retry-after": "1" } } : null,
  A4({ values }) {
    const status = Number(values.how);
    const message = PHRASES[status]!;
    const bodies = {
      object: error(status).body,
      text: `{"error":"${message}"}`,
      list: `{"error":[{"msg":"${message}"}]}`,
    };
    return { status, headers: JSON_TYPE, body: bodies[values.error as keyof typeof bodies] };
  },
  A5: ({ values }, { before }) => (before < (values.times as number) ? error(Number(values.status)) : null),
  H8({ values: { how } }) {
    if (how === "inject") return null;
    const body = how === "502" ? BAD_GATEWAY : BAD_GATEWAY.replaceAll("502 Bad Gateway", "504 Gateway Time-out");
    return { status: Number(how), headers: HTML_TYPE, body };
  },
  H9({ values: { how } }, { target }) {
    if (how === "100" || how === "103" || target.includes(FOLLOWED)) return null;
    const location = `${target}${target.includes("?") ? "&" : "?"}${FOLLOWED}`;
    return { status: Number(how), headers: { location, ...TEXT_TYPE }, body: "" };
  },
};

function error(status: number): AnswerContent {
  const message = PHRASES[status]!;
  const body = JSON.stringify({ error: { message, type: message.replaceAll(" ", ""), param: null, code: status } });
  return { status, headers: JSON_TYPE, body };
}

function retryAfter(how: string, epochSeconds: number): Readonly<Record<string, string>> {
  const seconds: Readonly<Record<string, string>> = { seconds: "1", zero: "0", negative: "-5", day: `${DAY_S}` };
  if (how === "absent") return {};
  if (how === "ms") return { "retry-after-ms": "250" };
  if (how === "date") return { "retry-after": new Date(Math.ceil(epochSeconds + 1) * 1000).toUTCString() };
  return { "retry-after": seconds[how]! };
}
