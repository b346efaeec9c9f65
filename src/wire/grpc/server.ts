/** Routes gRPC calls by path. Refuses other requests with HTTP 405 or 415. */
import type { Clock } from "../../base/clock.ts";
import type { EventLoopTurns } from "../../base/pieces.ts";
import type { WaitingBytes } from "../http/waiting-bytes.ts";
import type { Http2Application } from "../http2/connection.ts";
import { lastValue, listBytes, type RequestHead } from "../http2/fields.ts";
import { HEADER_LIST_BYTES } from "../http2/frame-writer.ts";
import { encodeFields } from "../http2/hpack.ts";
import type { Http2Line } from "../http2/line.ts";
import type { Http2Stream, StreamReceiver } from "../http2/stream.ts";
import { type CallAround, type CallHandler, GrpcCall } from "./call.ts";
import { ACCEPTED, isEncoding } from "./compression.ts";
import { CallDeadlines, timeoutUs } from "./deadlines.ts";
import type { HeldMessages } from "./held-messages.ts";
import { TurnShare } from "./incoming.ts";
import { type GrpcStatus, onlyTrailers } from "./status.ts";
import { Unpacking } from "./unpacking.ts";

export type GrpcMethod = (call: GrpcCall) => CallHandler;

export interface GrpcLimits {
  readonly clock: Pick<Clock, "now" | "at">;
  /** Turns of the event loop between pieces of reading. */
  readonly turns: EventLoopTurns;
  /** Largest message, in bytes, packed or not. */
  readonly messageBytes: number;
  readonly held: HeldMessages;
  /** Answers that their clients do not read. */
  readonly waiting: WaitingBytes;
  readonly broken: (why: unknown) => void;
}

const NOT_GRPC = encodeFields([[":status", "415"]]);
const NOT_POST = encodeFields([[":status", "405"]]);
/** An answer of HTTP, when the request has come whole. */
const refusal = (stream: Http2Stream, block: Buffer): StreamReceiver => ({
  data() {},
  ended() {
    stream.head(block, false);
    stream.write(CALLS_ONLY);
    stream.end();
  },
  gone() {},
});
const CALLS_ONLY = Buffer.from("only calls of gRPC are answered here\n");
/** Who was answered already gets nothing. */
const DEAF: StreamReceiver = { data() {}, ended() {}, gone() {} };

export class GrpcServer implements Http2Application {
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #around: CallAround;

  /** `methods`: by path, as `/package.Service/Method`. */
  constructor(
    methods: ReadonlyMap<string, GrpcMethod>,
    { clock, turns, messageBytes, held, waiting, broken }: GrpcLimits,
  ) {
    this.#methods = methods;
    this.#around = {
      deadlines: new CallDeadlines(clock),
      messageBytes,
      held,
      unpacking: new Unpacking(messageBytes, held),
      turns,
      share: new TurnShare(turns),
      waiting,
      broken,
    };
  }

  open(stream: Http2Stream, head: RequestHead, line: Http2Line): StreamReceiver {
    const { fields } = head;
    if (head.method !== "POST") return refusal(stream, NOT_POST);
    if (!lastValue(fields, "content-type")?.startsWith("application/grpc")) return refusal(stream, NOT_GRPC);
    const bytes = listBytes(fields);
    if (bytes > HEADER_LIST_BYTES)
      return refuse(stream, {
        code: "RESOURCE_EXHAUSTED",
        message: `received metadata size exceeds limit (${bytes} vs. ${HEADER_LIST_BYTES})`,
      });
    const method = this.#methods.get(head.path);
    if (method === undefined) return refuse(stream, { code: "UNIMPLEMENTED", message: "" });
    const given = lastValue(fields, "grpc-encoding") ?? "identity";
    const encoding = isEncoding(given) ? given : null;
    if (encoding === null && given !== "identity")
      return refuse(stream, {
        code: "UNIMPLEMENTED",
        message: `Compression algorithm '${given}' in grpc-encoding is not known`,
      });
    const call = new GrpcCall(stream, head, encoding, this.#around, line);
    const timeout = lastValue(fields, "grpc-timeout");
    call.begin(method(call), timeout === undefined ? null : timeoutUs(timeout));
    return call;
  }
}

function refuse(stream: Http2Stream, status: GrpcStatus): StreamReceiver {
  const accepted = [["grpc-accept-encoding", ACCEPTED]] as const;
  stream.head(onlyTrailers(status, status.message.includes("grpc-encoding") ? accepted : []), true);
  return DEAF;
}
