/**
 * Asks a server whether it is ready. Routes:
 * - vLLM and trtllm-serve: `/health`, 200 with an empty body
 * - Triton: `/v2/health/ready`, 200 or 400 with an empty body
 * - Triton's OpenAI front end: `/health/ready`
 */

import type { Clock } from "../../base/clock.ts";
import { jsonObjectIn, looseList, looseObject } from "../../base/json-object.ts";
import { type FetchOptions, type FetchResult, fetchText, otherSchemeOf } from "../../tools/load/server.ts";

/** Maximum number of characters of an answer that a message quotes. */
const QUOTED_MOST = 80;

export interface Readiness {
  readonly isReady: boolean;
  /** Reason that a message puts after the URL and a colon. */
  readonly reason: string;
}

/**
 * Routes that report readiness, in the order in which they are tried. `models`: the route that reports whether a model is
 * served.
 */
const ROUTES = [
  { path: "/health", server: "vLLM's and trtllm-serve's route", models: "list" },
  { path: "/v2/health/ready", server: "Triton's route", models: "model" },
  { path: "/health/ready", server: "the route of Triton's OpenAI front end", models: "list" },
] as const;

/** Asks the server at `base`, a URL without a final slash. Each request takes at most `timeoutS` seconds. Never rejects. */
export async function readinessOf(
  base: string,
  model: string | undefined,
  options: FetchOptions,
  timeoutS: number,
  clock: Clock,
): Promise<Readiness> {
  const get = (path: string): Promise<FetchResult> => fetchText(base + path, options, clock, undefined, timeoutS);
  let refusal = "";
  for (const { path, server, models } of ROUTES) {
    const answer = await get(path);
    if (answer.why !== null) return { isReady: false, reason: await unreachable(base, answer.why, clock) };
    if (answer.status === 200 && answer.text.trim() === "") {
      const served = model === undefined ? null : await modelProblem(get, models, model);
      return served === null
        ? { isReady: true, reason: `ready (${path} answers 200${model === undefined ? "" : `, serves ${model}`})` }
        : { isReady: false, reason: served };
    }
    if (isNotReady(path, answer))
      return { isReady: false, reason: `not ready: ${path}, ${server}, answers ${answer.status}` };
    refusal ||= `${path} answers ${answer.status}${quoteOf(answer.text)}`;
  }
  return { isReady: false, reason: `not a vLLM, a Triton or a trtllm-serve: ${refusal}` };
}

/**
 * Reports whether an answer says that the server is not ready. vLLM and trtllm-serve answer 503 while the engine is dead.
 * Triton answers 400 until its models are loaded, and 503 during its shutdown.
 */
const isNotReady = (path: string, { status, text }: FetchResult): boolean =>
  status === 503 || (status === 400 && path !== "/health" && text.trim() === "");

/** Returns null if the server serves `model`, else the reason why the model cannot be used. */
async function modelProblem(
  get: (path: string) => Promise<FetchResult>,
  models: "list" | "model",
  model: string,
): Promise<string | null> {
  if (models === "model") {
    const path = `/v2/models/${encodeURIComponent(model)}/ready`;
    const { status, why } = await get(path);
    return status === 200 ? null : `not ready: ${path} answers ${why ?? status}`;
  }
  const { status, text, why } = await get("/v1/models");
  if (status === 401 || status === 403) return `/v1/models answers ${status}; give the server's key with --api-key`;
  if (status !== 200) return `not ready: /v1/models answers ${why ?? status}`;
  const ids = looseList(jsonObjectIn(text)?.data).map((entry) => looseObject(entry)?.id);
  return ids.includes(model) ? null : `does not serve the model "${model}"; serves ${namesOf(ids)}`;
}

function namesOf(ids: readonly unknown[]): string {
  const names = ids.filter((id): id is string => typeof id === "string").map((id) => id.slice(0, QUOTED_MOST));
  const more = names.length > 8 ? ` and ${names.length - 8} more` : "";
  return names.length === 0 ? "none" : names.slice(0, 8).join(", ") + more;
}

function quoteOf(text: string): string {
  const line = text.trim().split(/\s+/).join(" ");
  if (line === "") return "";
  return ` with "${line.slice(0, QUOTED_MOST)}${line.length > QUOTED_MOST ? "…" : ""}"`;
}

/** Explains why the server did not answer. `why`: an error code of the HTTP client, or a sentence. */
async function unreachable(base: string, why: string, clock: Clock): Promise<string> {
  if (why === "ECONNREFUSED") return `nothing listens there (${why})`;
  if (/CERT|SIGNATURE/.test(why)) return `its certificate is not trusted (${why}); --ssl-ca-certs FILE or --insecure`;
  if (why.startsWith("no answer")) return why;
  if (why === "Malformed_HTTP_Response")
    return `the answer is not HTTP/1.1 (${why}); a gRPC or HTTP/2 port? Give the HTTP port`;
  const other = await otherSchemeOf(base, "/health", clock);
  return other === null ? `no answer (${why})` : `the port speaks ${other.replace(/:.*/, "")} (${why}); give ${other}`;
}
