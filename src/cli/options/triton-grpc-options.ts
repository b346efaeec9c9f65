/** The flags of `tritonserver` for gRPC (`command_line_parser.cc`, 2026). */

import { initially, serveGroup } from "./landing.ts";
import { choiceOfAnyCase, freeText, integer, row, texts } from "./option.ts";
import { falseAtStart, tritonBoolean } from "./triton-options.ts";

export const tritonGrpcOptions = serveGroup("gRPC", {
  "allow-grpc": row("Serve gRPC.", { feeds: "triton.grpc", ...tritonBoolean, default: "true" }),
  "grpc-port": row("Port of gRPC. 0: any free port.", {
    lands: "triton.grpc.port",
    ...integer(0, 65535),
    ...initially(8001),
  }),
  "grpc-address": row("Address of gRPC.", {
    lands: "triton.grpc.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
  }),
  "grpc-restricted-protocol": row(
    "Protocols that are open only to calls with the header triton-grpc-protocol-KEY. Names as for --http-restricted-api.",
    {
      feeds: "triton.overGrpc.restricted",
      ...texts("PROTOCOL,…:KEY=VALUE", "protocols and the header that calls need, as inference,statistics:admin=yes"),
      secret: true,
    },
  ),
  "grpc-use-ssl": row("Use TLS. Needs --grpc-server-cert and --grpc-server-key.", {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
  }),
  "grpc-use-ssl-mutual": row("Use TLS and require a certificate of clients. Also needs --grpc-root-cert.", {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
  }),
  "grpc-server-cert": row("PEM file of the server's certificate.", {
    lands: "triton.overGrpc.tls.cert",
    ...freeText("PATH", "a file"),
  }),
  "grpc-server-key": row("PEM file of the server's private key.", {
    lands: "triton.overGrpc.tls.key",
    ...freeText("PATH", "a file"),
  }),
  "grpc-root-cert": row("PEM file of the authority that signed the clients' certificates.", {
    lands: "triton.overGrpc.tls.root",
    ...freeText("PATH", "a file"),
  }),
  "grpc-infer-response-compression-level": row(
    "Compression of inference responses, if the client accepts it. low: gzip; medium and high: deflate.",
    { lands: "triton.overGrpc.compression", ...choiceOfAnyCase("none", "low", "medium", "high"), ...initially("none") },
  ),
  "grpc-header-forward-pattern": row(
    "Pattern of metadata names. Matching metadata of a call become parameters of its requests.",
    { lands: "triton.overGrpc.forward", ...freeText("PATTERN", "a pattern of RE2"), initial: null },
  ),
  "grpc-max-message-fields": row(
    "Maximum fields of one message: tensors, parameters, strings and raw contents, but not elements of number lists. docs/reference/limits.md explains the count.",
    { lands: "triton.overGrpc.messageFields", ...integer(1), ...initially(16_384), ours: true },
  ),
  "grpc-keepalive-time": row("Milliseconds of silence after which the server pings a client.", {
    lands: "triton.overGrpc.keepAlive.timeMs",
    ...integer(0),
    ...initially(7_200_000),
  }),
  "grpc-keepalive-timeout": row("Milliseconds to wait for the answer to a ping; then the connection is closed.", {
    lands: "triton.overGrpc.keepAlive.timeoutMs",
    ...integer(0),
    ...initially(20_000),
  }),
  "grpc-keepalive-permit-without-calls": row("Send and accept pings on connections without a call.", {
    lands: "triton.overGrpc.keepAlive.withoutCalls",
    ...falseAtStart,
  }),
  "grpc-http2-min-recv-ping-interval-without-data": row(
    "Minimum milliseconds between a client's pings while no data is sent.",
    { lands: "triton.overGrpc.keepAlive.leastIntervalMs", ...integer(0), ...initially(300_000) },
  ),
  "grpc-http2-max-ping-strikes": row("Early pings to accept before the connection is closed; 0: no limit.", {
    lands: "triton.overGrpc.keepAlive.strikesMost",
    ...integer(0),
    ...initially(2),
  }),
  "grpc-max-connection-age": row("Milliseconds after which a connection accepts no new call.", {
    lands: "triton.overGrpc.keepAlive.ageMs",
    ...integer(0),
    initial: 0,
    default: "no limit",
  }),
  "grpc-max-connection-age-grace": row(
    "Milliseconds that running calls may continue after --grpc-max-connection-age.",
    { lands: "triton.overGrpc.keepAlive.graceMs", ...integer(0), initial: 0, default: "no limit" },
  ),
});
