/**
 * Chooses the answer headers that a record keeps. A list of allowed names, because any other name may carry a secret
 * (`set-cookie`, `x-auth`, `x-session`, signed links), and clients of LLM servers use only a few.
 */
import { type HeaderLines, lower } from "./fields.ts";

/** Headers about the content, retries, rate limits, the request id, and CORS. */
const KEPT = new Set([
  ...["content-type", "content-language", "content-disposition", "cache-control", "vary", "allow"],
  ...["retry-after", "retry-after-ms", "x-should-retry", "deprecation", "sunset"],
  ...["request-id", "x-request-id", "openai-model", "openai-processing-ms", "openai-version"],
  ...["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
  ...["access-control-allow-origin", "access-control-allow-credentials", "access-control-expose-headers"],
]);
/** Names of rate limit headers with a vendor prefix, such as `x-ratelimit-remaining-tokens`. */
const LIMITS =
  /^(x|anthropic)-ratelimit-(limit|remaining|reset|(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset))(-[a-z]+)*$/;

/** Returns the headers to record. Names are lower-case; lines of the same name are joined (RFC 9110, 5.3). */
export function recordedHeaders(fields: HeaderLines): Record<string, string> {
  const kept = new Map<string, string>();
  for (const [sent, value] of fields) {
    const name = lower(sent);
    const written = KEPT.has(name) || LIMITS.test(name) ? value : name === "location" ? withoutSecrets(value) : null;
    if (written === null) continue;
    const before = kept.get(name);
    kept.set(name, before === undefined ? written : `${before}, ${written}`);
  }
  return Object.fromEntries(kept);
}

/** Removes user, query and fragment from a link, because any query parameter may be a signature. */
const withoutSecrets = (link: string): string =>
  link.replace(/[?#].*$/s, "").replace(/^([a-z][a-z0-9+.-]*:)?\/\/[^/]*@/i, "$1//");
