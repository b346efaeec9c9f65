/**
 * Adds the headers of Starlette's CORS middleware and answers preflights. Starlette 1.10 (`middleware/cors.py`) as vLLM 0.33
 * sets it up: always active, but without origins unless `--allowed-origins` names some.
 */
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { CorsConfig } from "../request/openai-config.ts";

const ALL_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY";
const SAFE_HEADERS = ["Accept", "Accept-Language", "Content-Language", "Content-Type"];
const MAX_AGE_S = "600";
/** Headers of every answer to a preflight, in Starlette's order. */
const PREFLIGHT = {
  server: "uvicorn",
  vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network",
};

type Headers = Readonly<Record<string, string>>;

interface Preflight {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
}

export class Cors {
  readonly #origins: readonly string[];
  readonly #anyOrigin: boolean;
  readonly #methods: readonly string[];
  readonly #anyHeader: boolean;
  readonly #headers: readonly string[];
  readonly #credentials: boolean;

  /** Without `config` no origin is allowed. */
  constructor(config: CorsConfig = { origins: [], methods: ["*"], headers: ["*"], credentials: false }) {
    this.#origins = config.origins;
    this.#anyOrigin = config.origins.includes("*");
    this.#methods = config.methods.includes("*") ? ALL_METHODS.split(", ") : config.methods;
    this.#anyHeader = config.headers.includes("*");
    this.#headers = [...new Set([...SAFE_HEADERS, ...config.headers])].sort();
    this.#credentials = config.credentials;
  }

  /** True if no answer gets a CORS header. */
  get off(): boolean {
    return this.#origins.length === 0 && !this.#credentials;
  }

  /** Returns the headers to add to an answer, or null for none. Like Starlette, allows credentials to any origin. */
  headersFor(request: HttpRequest): Headers | null {
    const origin = request.headers.get("origin");
    if (origin === null || this.off) return null;
    const answer: Record<string, string> = {};
    if (this.#anyOrigin) answer["access-control-allow-origin"] = this.#credentials ? origin : "*";
    if (this.#credentials) answer["access-control-allow-credentials"] = "true";
    if (!this.#anyOrigin && this.#origins.includes(origin)) answer["access-control-allow-origin"] = origin;
    return answer;
  }

  /** Returns the answer to a preflight, or null if the request is not a preflight. */
  preflight({ method, headers }: HttpRequest): Preflight | null {
    const origin = headers.get("origin");
    const requestedMethod = headers.get("access-control-request-method");
    if (method !== "OPTIONS" || origin === null || requestedMethod === null) return null;
    const requestedHeaders = headers.get("access-control-request-headers");
    const failures: string[] = [];
    const answer: Record<string, string> = {
      ...PREFLIGHT,
      ...(this.#anyOrigin && !this.#credentials ? { "access-control-allow-origin": "*" } : {}),
      "access-control-allow-methods": this.#methods.join(", "),
      "access-control-max-age": MAX_AGE_S,
    };
    if (!this.#anyHeader) answer["access-control-allow-headers"] = this.#headers.join(", ");
    if (this.#credentials) answer["access-control-allow-credentials"] = "true";
    if (!this.#anyOrigin && !this.#origins.includes(origin)) failures.push("origin");
    else if (!this.#anyOrigin || this.#credentials) answer["access-control-allow-origin"] = origin;
    if (!this.#methods.includes(requestedMethod)) failures.push("method");
    if (requestedHeaders !== null && this.#anyHeader) answer["access-control-allow-headers"] = requestedHeaders;
    else if (requestedHeaders?.split(",").some((name) => !this.#knows(name))) failures.push("headers");
    if (headers.has("access-control-request-private-network")) failures.push("private-network");
    const whole = { ...answer, "content-type": "text/plain; charset=utf-8" };
    if (failures.length === 0) return { status: 200, body: "OK", headers: whole };
    return { status: 400, body: `Disallowed CORS ${failures.join(", ")}`, headers: whole };
  }

  #knows(name: string): boolean {
    return this.#headers.some((known) => known.toLowerCase() === name.toLowerCase().trim());
  }
}
