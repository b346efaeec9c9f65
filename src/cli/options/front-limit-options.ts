/** Options of the listeners: TLS, allowed hosts, and limits on the size and the time of HTTP requests. */

import { FRONT_LIMITS, RETRY_AFTER_FORMS } from "../../wire/http/front-limits.ts";
import { isHostPattern } from "../../wire/http/host-check.ts";
import { initially, ourServeGroup, serveGroup } from "./landing.ts";
import { choice, firstGiven, freeText, integer, namesOf, number, type Option, row, toggle } from "./option.ts";

const certReqs: Option<0 | 2> = {
  ...integer(0, 2),
  accepts: "0 (no client certificate) or 2 (one is required)",
  read: ([text]) => (text === "0" ? 0 : text === "2" ? 2 : undefined),
};

/** The option --allowed-hosts, which every role of the server accepts. */
export const allowedHosts: Option<readonly string[]> & { readonly default: string; readonly about: string } = {
  arity: "list",
  accepts: "one or more host names, as example.com, *.example.com, 127.0.0.1 or *",
  metavar: "HOST",
  read: (texts) => (texts.every(isHostPattern) ? texts : undefined),
  default: "*: any",
  about:
    "Answer 400 to requests whose Host header names another host, on every HTTP port, against DNS rebinding: docs/how-to/admin.md.",
};

export const frontLimitOptions = {
  ...serveGroup("Server", {
    "ssl-keyfile": row("Private key of --ssl-certfile.", {
      lands: "listen.tls.keyfile",
      ...freeText("FILE", "the path of a PEM file"),
      initial: null,
    }),
    "ssl-certfile": row("Serve HTTPS with this certificate and its chain. The file may also hold the private key.", {
      lands: "listen.tls.certfile",
      ...freeText("FILE", "the path of a PEM file"),
    }),
    "self-signed-certs": row("Serve HTTPS with a certificate made at the start. Each worker process makes its own.", {
      feeds: "listen.tls",
      ...toggle,
      ours: true,
    }),
    "ssl-ca-certs": row("Certificate authorities whose client certificates are accepted.", {
      lands: "listen.tls.caCerts",
      ...freeText("FILE", "the path of a PEM file"),
      initial: null,
    }),
    "ssl-cert-reqs": row(
      "Client certificates. 0: not asked for; 2: required, signed by --ssl-ca-certs. vLLM's 1 (optional) is not implemented.",
      { lands: "listen.tls.certReqs", ...certReqs, ...initially(0) },
    ),
    "h11-max-incomplete-event-size": row(
      "Maximum bytes of a request's headers; larger ones get 431. No effect in vLLM, which uses another parser.",
      { lands: "listen.frontLimits.headBytes", ...integer(1024, 2 ** 30), default: String(FRONT_LIMITS.headBytes) },
    ),
  }),
  ...ourServeGroup("Server", {
    "timeout-keep-alive": row(
      "Seconds after which an idle connection is closed. VLLM_HTTP_TIMEOUT_KEEP_ALIVE sets it too.",
      { lands: "listen.frontLimits.keepAliveS", ...integer(1, 255), default: String(FRONT_LIMITS.keepAliveS) },
    ),
    "body-timeout": row("Seconds that a request's body may take to arrive; then 408. 0: no limit, as in vLLM.", {
      lands: "listen.frontLimits.bodyTimeoutS",
      ...number(0, 86_400),
      default: String(FRONT_LIMITS.bodyTimeoutS),
    }),
    "request-timeout": row(
      "Seconds that an answer may take; then 504, or an error as the last event of a stream. 0: no limit.",
      { lands: "listen.frontLimits.requestTimeoutS", ...number(0, 86_400), default: "0" },
    ),
    "limit-concurrency": row("Maximum concurrent generation requests; more get --overload-status. 0: no limit.", {
      lands: "listen.frontLimits.requests",
      ...integer(0),
      default: "0",
    }),
    "max-streams": row("Maximum concurrent event streams; more get --overload-status. 0: no limit.", {
      lands: "listen.frontLimits.streams",
      ...integer(0),
      default: "0",
    }),
    "overload-status": row(
      "HTTP status of requests that are refused because the server is full: docs/how-to/admission.md.",
      {
        lands: "listen.frontLimits.overloadStatus",
        as: (status: "503" | "429") => (status === "429" ? 429 : 503),
        ...choice("503", "429"),
        default: String(FRONT_LIMITS.overloadStatus),
      },
    ),
    "retry-after": row("Seconds after which a client should retry, sent with refusals because the server is full.", {
      lands: "listen.frontLimits.retryAfter.seconds",
      ...number(0, 86_400),
    }),
    "retry-after-form": row(
      "Headers of --retry-after: Retry-After in seconds, Retry-After as a date, or retry-after-ms.",
      { lands: "listen.frontLimits.retryAfter.forms", ...namesOf(RETRY_AFTER_FORMS), default: "seconds" },
    ),
  }),
} as const;

type Values = { readonly [K in keyof typeof frontLimitOptions]?: ReturnType<(typeof frontLimitOptions)[K]["read"]> };

/**
 * Returns an error message if the TLS options contradict each other, else undefined. `at`: returns the place where the user set
 * an option.
 */
export function wrongTls(values: Values, at: (option: string) => string): string | undefined {
  const { "ssl-certfile": certfile, "ssl-ca-certs": caCerts, "ssl-cert-reqs": certReqs = 0 } = values;
  if (values["self-signed-certs"]) {
    const conflicting = firstGiven(values, ["ssl-certfile", "ssl-keyfile", "ssl-ca-certs"]);
    return conflicting && `${at(conflicting)}: not possible with --self-signed-certs`;
  }
  if (certfile === undefined) {
    const lonely = firstGiven(values, ["ssl-keyfile", "ssl-ca-certs"]);
    const needing = lonely ?? (certReqs === 0 ? undefined : "ssl-cert-reqs");
    return needing && `${at(needing)}: needs --ssl-certfile, without which there is no TLS`;
  }
  if (certReqs === 2 && caCerts === undefined)
    return `${at("ssl-cert-reqs")}: client certificates cannot be checked without --ssl-ca-certs`;
  return undefined;
}
