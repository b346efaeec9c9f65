/** Which options set the limits of the HTTP front: TLS, the sizes and times that it allows? */
import { FRONT_LIMITS, type FrontLimits, RETRY_AFTER_FORMS } from "../../wire/http/front-limits.ts";
import type { TlsConfig } from "../../wire/tls/tls-config.ts";
import { choice, freeText, inGroup, integer, namesOf, number, type Option, ourGroup, toggle } from "./option.ts";

const certReqs: Option<0 | 2> = {
  ...integer(0, 2),
  accepts: "0 (no client certificate) or 2 (one is required)",
  read: ([text]) => (text === "0" ? 0 : text === "2" ? 2 : undefined),
};

export const frontLimitOptions = {
  ...inGroup("Server", {
    "ssl-keyfile": {
      ...freeText("FILE", "the path of a PEM file"),
      default: "none",
      about: "Private key of --ssl-certfile.",
    },
    "ssl-certfile": {
      ...freeText("FILE", "the path of a PEM file"),
      default: "none",
      about: "Certificate, with its chain: the server speaks HTTPS. May hold the private key too.",
    },
    "self-signed-certs": {
      ...toggle,
      default: "false",
      about:
        "The server speaks HTTPS with a certificate that it makes at the start; each worker process makes its own.",
      ours: true,
    },
  }),
  ...inGroup("Server", {
    "ssl-ca-certs": {
      ...freeText("FILE", "the path of a PEM file"),
      default: "none",
      about: "Authorities whose client certificates are accepted.",
    },
    "ssl-cert-reqs": {
      ...certReqs,
      default: "0",
      about: "Client certificates: 0 none, 2 one of --ssl-ca-certs is required. vLLM's 1 (optional) is not built.",
    },
    "h11-max-incomplete-event-size": {
      ...integer(1024, 2 ** 30),
      default: String(FRONT_LIMITS.headBytes),
      about: "Largest head of a request in bytes; above it 431. In vLLM, which uses another parser, it has no effect.",
    },
  }),
  ...ourGroup("Server", {
    "timeout-keep-alive": {
      ...integer(1, 255),
      default: String(FRONT_LIMITS.keepAliveS),
      about: "Seconds after which an idle connection is closed. Also taken from VLLM_HTTP_TIMEOUT_KEEP_ALIVE.",
    },
    "body-timeout": {
      ...number(0, 86_400),
      default: String(FRONT_LIMITS.bodyTimeoutS),
      about: "Seconds that a request's body may take to arrive; then 408. 0 is no limit, as in vLLM.",
    },
    "request-timeout": {
      ...number(0, 86_400),
      default: "0",
      about: "Seconds that an answer may take; then 504, or an error as the last event of its stream. 0 is no limit.",
    },
    "limit-concurrency": {
      ...integer(0),
      default: "0",
      about: "Most generation requests that are served at once; beyond it as --overload-status says. 0 is no limit.",
    },
    "max-streams": {
      ...integer(0),
      default: "0",
      about: "Most event streams at once; beyond it as --overload-status says. 0 is no limit.",
    },
    "overload-status": {
      ...choice("503", "429"),
      default: String(FRONT_LIMITS.overloadStatus),
      about: "Status of refusals because the server is full: docs/admission.md.",
    },
    "retry-after": {
      ...number(0, 86_400),
      default: "none",
      about: "Refusals because the server is full ask the client to come again after so many seconds.",
    },
    "retry-after-form": {
      ...namesOf(RETRY_AFTER_FORMS),
      default: "seconds",
      about: "How --retry-after is said: Retry-After in seconds or as a date, or retry-after-ms.",
    },
  }),
} as const;

type Values = { readonly [K in keyof typeof frontLimitOptions]?: ReturnType<(typeof frontLimitOptions)[K]["read"]> };

/** `at`: where an option was given. */
export function tlsConfig(
  values: Values,
  at: (option: string) => string,
): { readonly tls?: TlsConfig | "self-signed" } | { readonly error: string } {
  const { "ssl-certfile": certfile, "ssl-keyfile": keyfile, "ssl-ca-certs": caCerts } = values;
  const certReqs = values["ssl-cert-reqs"] ?? 0;
  if (values["self-signed-certs"]) {
    const besides = (["ssl-certfile", "ssl-keyfile", "ssl-ca-certs"] as const).find(
      (name) => values[name] !== undefined,
    );
    return besides ? { error: `${at(besides)}: not beside --self-signed-certs` } : { tls: "self-signed" };
  }
  if (certfile === undefined) {
    const lonely = (["ssl-keyfile", "ssl-ca-certs"] as const).find((name) => values[name] !== undefined);
    if (lonely !== undefined) return { error: `${at(lonely)}: there is no TLS without --ssl-certfile` };
    return certReqs === 0 ? {} : { error: `${at("ssl-cert-reqs")}: there is no TLS without --ssl-certfile` };
  }
  if (certReqs === 2 && caCerts === undefined)
    return { error: `${at("ssl-cert-reqs")}: client certificates cannot be checked without --ssl-ca-certs` };
  return { tls: { certfile, keyfile: keyfile ?? null, caCerts: caCerts ?? null, certReqs } };
}

export function frontLimitsConfig(values: Values): { readonly frontLimits?: FrontLimits } {
  const seconds = values["retry-after"];
  const said = {
    headBytes: values["h11-max-incomplete-event-size"],
    keepAliveS: values["timeout-keep-alive"],
    bodyTimeoutS: values["body-timeout"],
    requestTimeoutS: values["request-timeout"],
    requests: values["limit-concurrency"],
    streams: values["max-streams"],
    overloadStatus: values["overload-status"] && (values["overload-status"] === "429" ? 429 : 503),
    retryAfter: seconds === undefined ? undefined : { seconds, forms: values["retry-after-form"] ?? ["seconds"] },
  } as const;
  const given = Object.entries(said).filter(([, value]) => value !== undefined);
  return given.length === 0
    ? {}
    : { frontLimits: { ...FRONT_LIMITS, ...(Object.fromEntries(given) as Partial<FrontLimits>) } };
}
