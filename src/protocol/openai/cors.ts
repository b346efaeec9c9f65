/**
 * Which headers does Starlette's CORS middleware add, and what does it answer to a preflight? Starlette 1.10
 * (`middleware/cors.py`), as vLLM 0.33 sets it up: always there, without origins unless `--allowed-origins` names some.
 */
import type { CorsConfig } from "../../config/types.ts";

const ALL_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY";
const SAFE_HEADERS = ["Accept", "Accept-Language", "Content-Language", "Content-Type"];
const MAX_AGE_S = "600";
/** Of every preflight. */
const PREFLIGHT = {
  server: "uvicorn",
  vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network",
};
const TEXT = { "content-type": "text/plain; charset=utf-8" };

type Headers = Readonly<Record<string, string>>;

export interface Preflight {
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

  /** Absent: no origin is allowed. */
  constructor(config: CorsConfig = { origins: [], methods: ["*"], headers: ["*"], credentials: false }) {
    this.#origins = config.origins;
    this.#anyOrigin = config.origins.includes("*");
    this.#methods = config.methods.includes("*") ? ALL_METHODS.split(", ") : config.methods;
    this.#anyHeader = config.headers.includes("*");
    this.#headers = [...new Set([...SAFE_HEADERS, ...config.headers])].sort();
    this.#credentials = config.credentials;
  }

  /** No answer gets anything. */
  get off(): boolean {
    return this.#origins.length === 0;
  }

  /** What an answer to this request gets besides. */
  headersFor(request: Request): Headers | null {
    const origin = request.headers.get("origin");
    if (origin === null || this.off) return null;
    const credentials: Headers = this.#credentials ? { "access-control-allow-credentials": "true" } : {};
    if (this.#anyOrigin) {
      const named = this.#credentials && request.headers.has("cookie");
      return { ...credentials, "access-control-allow-origin": named ? origin : "*" };
    }
    return this.#origins.includes(origin) ? { ...credentials, "access-control-allow-origin": origin } : null;
  }

  /** The answer to a preflight; null: the request is none. */
  preflight({ method, headers }: Request): Preflight | null {
    const origin = headers.get("origin");
    const wanted = headers.get("access-control-request-method");
    if (method !== "OPTIONS" || origin === null || wanted === null) return null;
    const asked = headers.get("access-control-request-headers");
    const failures: string[] = [];
    const answer: Record<string, string> = { ...PREFLIGHT };
    if (this.#anyOrigin || this.#origins.includes(origin))
      answer["access-control-allow-origin"] = this.#anyOrigin && !this.#credentials ? "*" : origin;
    else failures.push("origin");
    answer["access-control-allow-methods"] = this.#methods.join(", ");
    answer["access-control-max-age"] = MAX_AGE_S;
    if (!this.#anyHeader) answer["access-control-allow-headers"] = this.#headers.join(", ");
    if (this.#credentials) answer["access-control-allow-credentials"] = "true";
    if (!this.#methods.includes(wanted)) failures.push("method");
    if (asked !== null) {
      const known = new Set(this.#headers.map((name) => name.toLowerCase()));
      if (this.#anyHeader) answer["access-control-allow-headers"] = asked;
      else if (asked.split(",").some((name) => !known.has(name.trim().toLowerCase()))) failures.push("headers");
    }
    if (this.off) delete answer["access-control-allow-headers"];
    Object.assign(answer, TEXT);
    if (failures.length === 0) return { status: 200, body: "OK", headers: answer };
    return { status: 400, body: `Disallowed CORS ${failures.join(", ")}`, headers: answer };
  }
}
