/** Routes gRPC calls by path. Refuses other requests with HTTP 405 or 415. */
import type { Clock } from "../../base/clock.ts";
import type { Http2Application } from "../http2/connection.ts";
import type { ConnectionHandle } from "../http2/connection-handle.ts";
import { lastValue, listBytes, type RequestHead } from "../http2/fields.ts";
import { HEADER_LIST_BYTES } from "../http2/frame-writer.ts";
import { encodeFields } from "../http2/hpack.ts";
import { type Http2Stream, IGNORE, type StreamReceiver } from "../http2/stream.ts";
import { type CallHandler, type CallShared, GrpcCall } from "./call.ts";
import { ACCEPTED, isEncoding } from "./compression.ts";
import { CallDeadlines, timeoutUs } from "./deadlines.ts";
import { TurnShare } from "./incoming.ts";
import { type GrpcStatus, onlyTrailers } from "./status.ts";
import { Unpacking } from "./unpacking.ts";

/** Starts a call. Returns its handler. */
export type GrpcMethod = (call: GrpcCall) => CallHandler;

/** Limits and shared parts of a gRPC server. */
export interface GrpcLimits extends Omit<CallShared, "deadlines" | "unpacking" | "share"> {
  readonly clock: Pick<Clock, "now" | "at">;
}

const NOT_GRPC = encodeFields([[":status", "415"]]);
const NOT_POST = encodeFields([[":status", "405"]]);
/** Sends an HTTP answer once the whole request has arrived. */
const refusal = (stream: Http2Stream, block: Buffer): StreamReceiver => ({
  data() {},
  ended() {
    stream.head(block, false);
    stream.write(CALLS_ONLY);
    stream.end();
  },
  gone() {},
});
const CALLS_ONLY = Buffer.from("this server answers gRPC calls only\n");

export class GrpcServer implements Http2Application {
  readonly #shared: CallShared;

  /** `methods`: by path, such as `/package.Service/Method`. */
  constructor(
    private readonly methods: ReadonlyMap<string, GrpcMethod>,
    limits: GrpcLimits,
  ) {
    this.#shared = {
      ...limits,
      deadlines: new CallDeadlines(limits.clock),
      unpacking: new Unpacking(limits.messageBytes, limits.held),
      share: new TurnShare(limits.turns),
    };
  }

  open(stream: Http2Stream, head: RequestHead, connection: ConnectionHandle): StreamReceiver {
    const { fields } = head;
    if (head.method !== "POST") return refusal(stream, NOT_POST);
    if (!lastValue(fields, "content-type")?.startsWith("application/grpc")) return refusal(stream, NOT_GRPC);
    const bytes = listBytes(fields);
    if (bytes > HEADER_LIST_BYTES)
      return refuse(stream, {
        code: "RESOURCE_EXHAUSTED",
        message: `received metadata size exceeds limit (${bytes} vs. ${HEADER_LIST_BYTES})`,
      });
    const method = this.methods.get(head.path);
    if (method === undefined) return refuse(stream, { code: "UNIMPLEMENTED", message: "" });
    const encodingName = lastValue(fields, "grpc-encoding") ?? "identity";
    const encoding = isEncoding(encodingName) ? encodingName : null;
    if (encoding === null && encodingName !== "identity")
      return refuse(stream, {
        code: "UNIMPLEMENTED",
        message: `Compression algorithm '${encodingName}' in grpc-encoding is not known`,
      });
    const call = new GrpcCall(stream, head, encoding, this.#shared, connection);
    const timeout = lastValue(fields, "grpc-timeout");
    call.begin(method(call), timeout === undefined ? null : timeoutUs(timeout));
    return call;
  }
}

function refuse(stream: Http2Stream, status: GrpcStatus): StreamReceiver {
  const accepted = [["grpc-accept-encoding", ACCEPTED]] as const;
  stream.head(onlyTrailers(status, status.message.includes("grpc-encoding") ? accepted : []), true);
  return IGNORE;
}
