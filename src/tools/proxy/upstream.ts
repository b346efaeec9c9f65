/**
 * Sends a request to the real server. Uses Node's client, because it sends and returns header lines unchanged
 * (a list, not an object), reports interim answers and trailers, and leaves bodies in their coding.
 */
import http from "node:http";
import https from "node:https";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import { endToEnd, firstValue, type HeaderLines, linePairs, listMembers, lower, withOnly, without } from "./fields.ts";
import { writtenHead } from "./heads.ts";

/** A request to forward. */
export interface ForwardedRequest {
  readonly method: string;
  /** Request target as the client sent it. */
  readonly target: string;
  readonly fields: HeaderLines;
  readonly body: Uint8Array;
}

export interface UpstreamAnswer {
  readonly status: number;
  readonly reason: string;
  readonly fields: HeaderLines;
  /** Stream of the body. Fails if the server closes early. Trailers are known after its end. */
  readonly body: http.IncomingMessage;
}

export interface UpstreamOptions {
  /** True if the proxy reads the answer, so that it must not have a content coding. */
  readonly plain: boolean;
  /** Aborts the request. */
  readonly signal: AbortSignal;
  /** Receives the heads of interim answers (1xx) other than 100 and 101. */
  onInterim(head: string): void;
}

const agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };

/** Methods whose requests without a body need no Content-Length: 0. */
const BODILESS = ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"];
const CONTINUE = 100;
/** Most interim answers per request, and their bytes. Later ones are dropped, because they use memory while a client does not read. */
const INTERIM_MOST = 100;
const INTERIM_BYTES = 262_144;

/** Sends the request. Rejects if the server cannot be reached, does not speak HTTP, or its answer cannot be forwarded. */
export function passUpstream(
  to: URL,
  request: ForwardedRequest,
  { plain, signal, onInterim }: UpstreamOptions,
): Promise<UpstreamAnswer> {
  const protocol = to.protocol as keyof typeof agents;
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamAnswer>();
  const sent = (protocol === "https:" ? https : http).request({
    protocol,
    hostname: to.hostname.replace(/^\[|\]$/g, ""),
    port: to.port || (protocol === "https:" ? 443 : 80),
    method: request.method,
    path: pathBehind(to, request.target),
    headers: forwarded(request, to.host, plain).flat(),
    maxHeaderSize: FRONT_LIMITS.headBytes,
    agent: agents[protocol],
    signal,
  });
  // Node drops header lines after the 2,000th unless it is told not to count them.
  sent.maxHeadersCount = 0;
  let interims = 0;
  let interimBytes = 0;
  sent.on("information", ({ statusCode, statusMessage, rawHeaders }) => {
    if (statusCode === CONTINUE) return;
    const head = writtenHead(statusCode, statusMessage, endToEnd(linePairs(rawHeaders)));
    interims++;
    interimBytes += head.length;
    if (interims <= INTERIM_MOST && interimBytes <= INTERIM_BYTES) onInterim(head);
  });
  // Without this listener Node would never end the request.
  sent.on("upgrade", ({ statusCode, statusMessage }, socket) => {
    socket.destroy();
    reject(new Error(`answered ${statusCode} ${statusMessage}; the proxy does not switch protocols`));
  });
  sent.on("response", (answer) => {
    const { statusCode = 0, statusMessage = "", rawHeaders } = answer;
    const fields = linePairs(rawHeaders);
    const [coding] = unknownCodings(fields);
    if (coding !== undefined) {
      answer.on("error", () => {});
      sent.destroy();
      reject(new Error(`answered with the transfer coding ${coding}; the proxy knows chunked only`));
      return;
    }
    // Without Content-Length, Node ends the body normally even if the connection is reset.
    sent.on("error", (error) => answer.complete || answer.destroy(error));
    resolve({ status: statusCode, reason: statusMessage, fields: endToEnd(fields), body: answer });
  });
  sent.on("error", reject);
  sent.end(request.body);
  return promise;
}

/** Returns the path of `to` followed by path and query of the target. The authority of an absolute target is dropped. */
function pathBehind(to: URL, target: string): string {
  return target === "*" ? target : `${to.pathname.replace(/\/$/, "")}${originForm(target)}`;
}

/** Returns path and query of a target unchanged. `*` stays. */
export function originForm(target: string): string {
  if (target.startsWith("/") || target === "*") return target;
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  return path.startsWith("/") ? path : `/${path}`;
}

/** Returns the headers for the server: the client's without those of its connection, with the server's Host and a framing. */
function forwarded({ method, fields }: ForwardedRequest, host: string, plain: boolean): HeaderLines {
  // Trailers are not forwarded. The body has been read, so the client's expectation has been met.
  let lines: HeaderLines = without(endToEnd(fields), "trailer").filter(
    ([name, value]) => lower(name) !== "expect" || lower(value) !== "100-continue",
  );
  lines = firstValue(lines, "host") === null ? [["Host", host], ...lines] : withOnly(lines, ["Host", host]);
  if (plain) lines = withOnly(lines, ["Accept-Encoding", "identity"]);
  const isFramed = firstValue(lines, "content-length") !== null || firstValue(lines, "transfer-encoding") !== null;
  return isFramed || BODILESS.includes(method) ? lines : [...lines, ["Content-Length", "0"]];
}

/** Returns the transfer codings other than chunked. The proxy cannot forward such bodies, because it would remove the coding. */
export const unknownCodings = (fields: HeaderLines): string[] =>
  listMembers(fields, "transfer-encoding").filter((coding) => coding !== "chunked");
