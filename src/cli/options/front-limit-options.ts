/** The options of listeners: TLS, hosts, the sizes and times that the HTTP front allows. */

import { FRONT_LIMITS, RETRY_AFTER_FORMS } from "../../wire/http/front-limits.ts";
import { isHostPattern } from "../../wire/http/host-check.ts";
import { initially, ourServeGroup, serveGroup } from "./landing.ts";
import { choice, freeText, integer, namesOf, number, type Option, toggle } from "./option.ts";

const certReqs: Option<0 | 2> = {
  ...integer(0, 2),
  accepts: "0 (no client certificate) or 2 (one is required)",
  read: ([text]) => (text === "0" ? 0 : text === "2" ? 2 : undefined),
};

/** Servers of all kinds have it. */
export const allowedHosts: Option<readonly string[]> & { readonly default: string; readonly about: string } = {
  arity: "list",
  accepts: "one or more host names, as example.com, *.example.com, 127.0.0.1 or *",
  metavar: "HOST",
  read: (texts) => (texts.every(isHostPattern) ? texts : undefined),
  default: "*: any",
  about:
    "Answer 400 to requests whose Host header names another host, on every HTTP port, against DNS rebinding: docs/admin.md.",
};

export const frontLimitOptions = {
  ...serveGroup("Server", {
    "ssl-keyfile": {
      lands: "listen.tls.keyfile",
      ...freeText("FILE", "the path of a PEM file"),
      initial: null,
      default: "none",
      about: "Private key of --ssl-certfile.",
    },
    "ssl-certfile": {
      lands: "listen.tls.certfile",
      ...freeText("FILE", "the path of a PEM file"),
      default: "none",
      about: "Certificate, with its chain: the server speaks HTTPS. May hold the private key too.",
    },
    "self-signed-certs": {
      feeds: "listen.tls",
      ...toggle,
      default: "false",
      about:
        "The server speaks HTTPS with a certificate that it makes at the start; each worker process makes its own.",
      ours: true,
    },
  }),
  ...serveGroup("Server", {
    "ssl-ca-certs": {
      lands: "listen.tls.caCerts",
      ...freeText("FILE", "the path of a PEM file"),
      initial: null,
      default: "none",
      about: "Authorities whose client certificates are accepted.",
    },
    "ssl-cert-reqs": {
      lands: "listen.tls.certReqs",
      ...certReqs,
      ...initially(0),
      about: "Client certificates: 0 none, 2 one of --ssl-ca-certs is required. vLLM's 1 (optional) is not built.",
    },
    "h11-max-incomplete-event-size": {
      lands: "listen.frontLimits.headBytes",
      ...integer(1024, 2 ** 30),
      default: String(FRONT_LIMITS.headBytes),
      about: "Largest head of a request in bytes; above it 431. In vLLM, which uses another parser, it has no effect.",
    },
  }),
  ...ourServeGroup("Server", {
    "timeout-keep-alive": {
      lands: "listen.frontLimits.keepAliveS",
      ...integer(1, 255),
      default: String(FRONT_LIMITS.keepAliveS),
      about: "Seconds after which an idle connection is closed. Also taken from VLLM_HTTP_TIMEOUT_KEEP_ALIVE.",
    },
    "body-timeout": {
      lands: "listen.frontLimits.bodyTimeoutS",
      ...number(0, 86_400),
      default: String(FRONT_LIMITS.bodyTimeoutS),
      about: "Seconds that a request's body may take to arrive; then 408. 0 is no limit, as in vLLM.",
    },
    "request-timeout": {
      lands: "listen.frontLimits.requestTimeoutS",
      ...number(0, 86_400),
      default: "0",
      about: "Seconds that an answer may take; then 504, or an error as the last event of its stream. 0 is no limit.",
    },
    "limit-concurrency": {
      lands: "listen.frontLimits.requests",
      ...integer(0),
      default: "0",
      about: "Most generation requests that are served at once; beyond it as --overload-status says. 0 is no limit.",
    },
    "max-streams": {
      lands: "listen.frontLimits.streams",
      ...integer(0),
      default: "0",
      about: "Most event streams at once; beyond it as --overload-status says. 0 is no limit.",
    },
    "overload-status": {
      lands: "listen.frontLimits.overloadStatus",
      as: (status: "503" | "429") => (status === "429" ? 429 : 503),
      ...choice("503", "429"),
      default: String(FRONT_LIMITS.overloadStatus),
      about: "Status of refusals because the server is full: docs/admission.md.",
    },
    "retry-after": {
      lands: "listen.frontLimits.retryAfter.seconds",
      ...number(0, 86_400),
      default: "none",
      about: "Refusals because the server is full ask the client to come again after so many seconds.",
    },
    "retry-after-form": {
      lands: "listen.frontLimits.retryAfter.forms",
      ...namesOf(RETRY_AFTER_FORMS),
      default: "seconds",
      about: "How --retry-after is said: Retry-After in seconds or as a date, or retry-after-ms.",
    },
  }),
} as const;

type Values = { readonly [K in keyof typeof frontLimitOptions]?: ReturnType<(typeof frontLimitOptions)[K]["read"]> };

/** Options of TLS that do not fit together: one line, or undefined. `at`: where an option was given. */
export function wrongTls(values: Values, at: (option: string) => string): string | undefined {
  const { "ssl-certfile": certfile, "ssl-ca-certs": caCerts, "ssl-cert-reqs": certReqs = 0 } = values;
  if (values["self-signed-certs"]) {
    const besides = (["ssl-certfile", "ssl-keyfile", "ssl-ca-certs"] as const).find(
      (name) => values[name] !== undefined,
    );
    return besides && `${at(besides)}: not beside --self-signed-certs`;
  }
  if (certfile === undefined) {
    const lonely = (["ssl-keyfile", "ssl-ca-certs"] as const).find((name) => values[name] !== undefined);
    const needing = lonely ?? (certReqs === 0 ? undefined : "ssl-cert-reqs");
    return needing && `${at(needing)}: there is no TLS without --ssl-certfile`;
  }
  if (certReqs === 2 && caCerts === undefined)
    return `${at("ssl-cert-reqs")}: client certificates cannot be checked without --ssl-ca-certs`;
  return undefined;
}
