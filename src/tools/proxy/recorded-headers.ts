/**
 * Chooses the answer headers that a record keeps. A list of allowed names, because any other name may carry a secret
 * (`set-cookie`, `x-auth`, `x-session`, signed links), and clients of LLM servers act on few.
 */
import { type HeaderLines, lower } from "./fields.ts";

/** What the body is; when to retry; which limits hold; which request it was; what a browser may read. */
const KEPT = new Set([
  ...["content-type", "content-language", "content-disposition", "cache-control", "vary", "allow"],
  ...["retry-after", "retry-after-ms", "x-should-retry", "deprecation", "sunset"],
  ...["request-id", "x-request-id", "openai-model", "openai-processing-ms", "openai-version"],
  ...["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
  ...["access-control-allow-origin", "access-control-allow-credentials", "access-control-expose-headers"],
]);
/** Names with the vendor's limits on requests and tokens: `x-ratelimit-remaining-tokens`. */
const LIMITS =
  /^(x|anthropic)-ratelimit-(limit|remaining|reset|(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset))(-[a-z]+)*$/;

/** Names in lower case; several lines of one name are joined, as RFC 9110, 5.3 permits. */
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

/** A link without user, query and fragment: a signature may stand in a parameter of any name. */
const withoutSecrets = (link: string): string =>
  link.replace(/[?#].*$/s, "").replace(/^([a-z][a-z0-9+.-]*:)?\/\/[^/]*@/i, "$1//");
