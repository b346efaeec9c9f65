/** The flags of `tritonserver` for gRPC (`command_line_parser.cc`, 2026). */

import { initially, serveGroup } from "./landing.ts";
import { choiceOfAnyCase, freeText, integer, texts } from "./option.ts";
import { falseAtStart, tritonBoolean } from "./triton-options.ts";

export const tritonGrpcOptions = serveGroup("gRPC", {
  "allow-grpc": { feeds: "triton.grpc", ...tritonBoolean, default: "true", about: "Serve gRPC." },
  "grpc-port": {
    lands: "triton.grpc.port",
    ...integer(0, 65535),
    ...initially(8001),
    about: "Port of gRPC. 0: any free port.",
  },
  "grpc-address": {
    lands: "triton.grpc.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
    about: "Address of gRPC.",
  },
  "grpc-restricted-protocol": {
    feeds: "triton.overGrpc.restricted",
    ...texts("PROTOCOL,…:KEY=VALUE", "protocols and the header that calls need, as inference,statistics:admin=yes"),
    about:
      "Protocols that are open only to calls with the header triton-grpc-protocol-KEY. Names as for --http-restricted-api.",
    secret: true,
  },
  "grpc-use-ssl": {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
    about: "Use TLS. Needs --grpc-server-cert and --grpc-server-key.",
  },
  "grpc-use-ssl-mutual": {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
    about: "Use TLS and require a certificate of clients. Also needs --grpc-root-cert.",
  },
  "grpc-server-cert": {
    lands: "triton.overGrpc.tls.cert",
    ...freeText("PATH", "a file"),
    about: "PEM file of the server's certificate.",
  },
  "grpc-server-key": {
    lands: "triton.overGrpc.tls.key",
    ...freeText("PATH", "a file"),
    about: "PEM file of the server's private key.",
  },
  "grpc-root-cert": {
    lands: "triton.overGrpc.tls.root",
    ...freeText("PATH", "a file"),
    about: "PEM file of the authority that signed the clients' certificates.",
  },
  "grpc-infer-response-compression-level": {
    lands: "triton.overGrpc.compression",
    ...choiceOfAnyCase("none", "low", "medium", "high"),
    ...initially("none"),
    about: "Compression of inference responses, if the client accepts it. low: gzip; medium and high: deflate.",
  },
  "grpc-header-forward-pattern": {
    lands: "triton.overGrpc.forward",
    ...freeText("PATTERN", "a pattern of RE2"),
    initial: null,
    about: "Pattern of metadata names. Matching metadata of a call become parameters of its requests.",
  },
  "grpc-max-message-fields": {
    lands: "triton.overGrpc.messageFields",
    ...integer(1),
    ...initially(16_384),
    about:
      "Maximum fields of one message: tensors, parameters, strings and raw contents, but not elements of number lists. docs/reference/limits.md explains the count.",
    ours: true,
  },
  "grpc-keepalive-time": {
    lands: "triton.overGrpc.keepAlive.timeMs",
    ...integer(0),
    ...initially(7_200_000),
    about: "Milliseconds of silence after which the server pings a client.",
  },
  "grpc-keepalive-timeout": {
    lands: "triton.overGrpc.keepAlive.timeoutMs",
    ...integer(0),
    ...initially(20_000),
    about: "Milliseconds to wait for the answer to a ping; then the connection is closed.",
  },
  "grpc-keepalive-permit-without-calls": {
    lands: "triton.overGrpc.keepAlive.withoutCalls",
    ...falseAtStart,
    about: "Send and accept pings on connections without a call.",
  },
  "grpc-http2-min-recv-ping-interval-without-data": {
    lands: "triton.overGrpc.keepAlive.leastIntervalMs",
    ...integer(0),
    ...initially(300_000),
    about: "Minimum milliseconds between a client's pings while no data is sent.",
  },
  "grpc-http2-max-ping-strikes": {
    lands: "triton.overGrpc.keepAlive.strikesMost",
    ...integer(0),
    ...initially(2),
    about: "Early pings to accept before the connection is closed; 0: no limit.",
  },
  "grpc-max-connection-age": {
    lands: "triton.overGrpc.keepAlive.ageMs",
    ...integer(0),
    initial: 0,
    default: "no limit",
    about: "Milliseconds after which a connection accepts no new call.",
  },
  "grpc-max-connection-age-grace": {
    lands: "triton.overGrpc.keepAlive.graceMs",
    ...integer(0),
    initial: 0,
    default: "no limit",
    about: "Milliseconds that running calls may continue after --grpc-max-connection-age.",
  },
});
