/** The flags of `tritonserver` for gRPC, from its `command_line_parser.cc` (2026). */

import { initially, serveGroup } from "./landing.ts";
import { choiceOfAnyCase, freeText, integer, texts } from "./option.ts";
import { tritonBoolean } from "./triton-options.ts";

export const tritonGrpcOptions = serveGroup("gRPC", {
  "allow-grpc": { feeds: "triton.grpc", ...tritonBoolean, default: "true", about: "gRPC." },
  "grpc-port": {
    lands: "triton.grpc.port",
    ...integer(0, 65535),
    ...initially(8001),
    about: "Port of gRPC. 0 takes a free one.",
  },
  "grpc-address": {
    lands: "triton.grpc.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
    about: "Address of gRPC.",
  },
  "grpc-restricted-protocol": {
    feeds: "triton.overGrpc.restricted",
    ...texts("PROTOCOL,…:KEY=VALUE", "protocols with the header that opens them, as inference,statistics:admin=yes"),
    default: "none",
    about: "Protocols that need a header triton-grpc-protocol-KEY; their names are those of APIs.",
  },
  "grpc-use-ssl": {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
    default: "false",
    about: "TLS, with --grpc-server-cert and --grpc-server-key.",
  },
  "grpc-use-ssl-mutual": {
    feeds: "triton.overGrpc.tls",
    ...tritonBoolean,
    default: "false",
    about: "TLS, and clients must have a certificate, too.",
  },
  "grpc-server-cert": {
    lands: "triton.overGrpc.tls.cert",
    ...freeText("PATH", "a file"),
    default: "none",
    about: "The server's certificate, PEM.",
  },
  "grpc-server-key": {
    lands: "triton.overGrpc.tls.key",
    ...freeText("PATH", "a file"),
    default: "none",
    about: "Its private key, PEM.",
  },
  "grpc-root-cert": {
    lands: "triton.overGrpc.tls.root",
    ...freeText("PATH", "a file"),
    default: "none",
    about: "Who signed the clients' certificates, PEM.",
  },
  "grpc-infer-response-compression-level": {
    lands: "triton.overGrpc.compression",
    ...choiceOfAnyCase("none", "low", "medium", "high"),
    ...initially("none"),
    about: "How answers of inference are packed for clients that accept it: low gzip, else deflate.",
  },
  "grpc-header-forward-pattern": {
    lands: "triton.overGrpc.forward",
    ...freeText("PATTERN", "a pattern of RE2"),
    initial: null,
    default: "none",
    about: "Metadata of a call whose names match become parameters of its requests.",
  },
  "grpc-max-message-fields": {
    lands: "triton.overGrpc.messageFields",
    ...integer(1),
    ...initially(16_384),
    about:
      "Most fields of one message: tensors, parameters, texts and raw contents, not numbers of lists. docs/limits.md says how they are counted.",
    ours: true,
  },
  "grpc-keepalive-time": {
    lands: "triton.overGrpc.keepAlive.timeMs",
    ...integer(0),
    ...initially(7_200_000),
    about: "Silence in milliseconds after which a client is pinged.",
  },
  "grpc-keepalive-timeout": {
    lands: "triton.overGrpc.keepAlive.timeoutMs",
    ...integer(0),
    ...initially(20_000),
    about: "What its answer may take; then the connection ends.",
  },
  "grpc-keepalive-permit-without-calls": {
    lands: "triton.overGrpc.keepAlive.withoutCalls",
    ...tritonBoolean,
    ...initially(false),
    about: "Pings without a call, both ways.",
  },
  "grpc-http2-min-recv-ping-interval-without-data": {
    lands: "triton.overGrpc.keepAlive.leastIntervalMs",
    ...integer(0),
    ...initially(300_000),
    about: "Least milliseconds between a client's pings while nothing is sent.",
  },
  "grpc-http2-max-ping-strikes": {
    lands: "triton.overGrpc.keepAlive.strikesMost",
    ...integer(0),
    ...initially(2),
    about: "Pings that may come too early; 0 is any number.",
  },
  "grpc-max-connection-age": {
    lands: "triton.overGrpc.keepAlive.ageMs",
    ...integer(0),
    initial: 0,
    default: "no end",
    about: "Milliseconds after which a connection takes no new call.",
  },
  "grpc-max-connection-age-grace": {
    lands: "triton.overGrpc.keepAlive.graceMs",
    ...integer(0),
    initial: 0,
    default: "no end",
    about: "Milliseconds that its calls have from then on.",
  },
});
