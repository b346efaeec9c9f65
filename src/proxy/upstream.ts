/** How is a request sent on to the real server? As it came, but for what belongs to the connection. */
import http from "node:http";
import https from "node:https";

/** Fields of a connection, not of what passes (RFC 9110, 7.6.1); the length is written anew. */
const OF_THE_CONNECTION = [
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["expect", "content-length"],
];

export interface Passing {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface UpstreamAnswer {
  readonly status: number;
  /** In their order, names in lower case, without those of the connection. */
  readonly headers: Readonly<Record<string, string>>;
  /** null: it is not said. */
  readonly length: number | null;
  /** Bytes as they come; rejects where the server breaks off. */
  readonly body: http.IncomingMessage;
}

const agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };

/** Rejects where nobody answers. `plain`: what comes is to be read here, so it must be in no coding. */
export function passUpstream(to: URL, request: Passing, plain: boolean, signal: AbortSignal): Promise<UpstreamAnswer> {
  const protocol = to.protocol as keyof typeof agents;
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamAnswer>();
  const sent = (protocol === "https:" ? https : http).request(
    {
      protocol,
      hostname: to.hostname.replace(/^\[|\]$/g, ""),
      port: to.port || (protocol === "https:" ? 443 : 80),
      method: request.method,
      path: `${to.pathname.replace(/\/$/, "")}${request.target}`,
      headers: {
        ...without(request.headers),
        host: to.host,
        ...(plain ? { "accept-encoding": "identity" } : {}),
        ...(request.body.length > 0 ? { "content-length": `${request.body.length}` } : {}),
      },
      agent: agents[protocol],
      signal,
    },
    (answer) => {
      const { statusCode = 502, headers } = answer;
      const length = headers["content-length"];
      const all = Object.entries(headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(", ") : value!,
      ]);
      resolve({
        status: statusCode,
        headers: without(Object.fromEntries(all)),
        length: length === undefined ? null : Number(length),
        body: answer,
      });
    },
  );
  sent.on("error", reject);
  sent.end(request.body);
  return promise;
}

function without(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.includes(name)));
}
