/**
 * Calls a Triton server over gRPC: `ModelStreamInfer` for streamed answers, else `ModelInfer`, with several calls per
 * connection of `node:http2`. Makes the same records as `client.ts`.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import type { Cancel, Clock } from "../../../base/clock.ts";
import { listenUrl } from "../../../base/listen-url.ts";
import { TraceError } from "../../../workloads/trace.ts";
import { Answer, Patterns } from "../answers/answer.ts";
import { READERS } from "../answers/readers.ts";
import { turnText, UsageLevel } from "../requests/body.ts";
import { quoted } from "../requests/quoted.ts";
import { type TritonInputs, takesLength, tensorsOf } from "../requests/tensors.ts";
import type { FailureClass, RequestRecord } from "../requests/types.ts";
import type { ClientOptions, LoadClient, PendingRequest, PreparedBody } from "./client.ts";
import { answerIn, framedMessage, inferRequest, MessageReader, modelConfigRequest, modelIn } from "./grpc-wire.ts";

const SERVICE = "/inference.GRPCInferenceService/";
/** Maximum number of calls per connection. Then another connection is opened. */
const STREAMS_MOST = 64;
/** Maximum number of bytes of a message. */
const ANSWER_MOST = 16 * 2 ** 20;
/** Error code CANCEL of RST_STREAM. */
const CANCEL = 8;
const CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"].concat(
  ["ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"],
  ["UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"],
);
const NOTHING_AHEAD: PreparedBody = { text: "", usageLevel: UsageLevel.Nothing };

interface GrpcConnection {
  readonly session: ClientHttp2Session;
  streams: number;
  lost: boolean;
}

interface Call {
  readonly order: PendingRequest;
  readonly answer: Answer;
  readonly stream: ClientHttp2Stream;
  readonly ended: (record: RequestRecord, text: string) => void;
  readonly startUs: number;
  readonly cancels: Cancel[];
  sendUs: number;
  status: number;
}

export class GrpcClient implements LoadClient {
  outputs = 0;
  readonly connections = { opened: 0, resent: 0 };
  readonly #connections: GrpcConnection[] = [];
  readonly #calls = new Set<Call>();
  readonly #patterns = new Patterns();
  #model: TritonInputs | null = null;
  #originUs = 0;

  constructor(
    private readonly options: ClientOptions,
    private readonly clock: Clock,
  ) {}

  get asksLength(): boolean {
    return this.#model!.decoupled && takesLength(this.#model!);
  }

  /** Asks the server for the model's inputs. Throws a TraceError if it does not answer. */
  async learn(): Promise<void> {
    const { model, stream } = this.options.body;
    const call = this.#open("ModelConfig");
    const reader = new MessageReader(ANSWER_MOST, this.#patterns.held);
    const models: TritonInputs[] = [];
    const why = await new Promise<string | null>((done) => {
      const late = this.clock.at(this.clock.now() + this.options.timeoutUs, () => done("no answer"));
      const over = (why: string | null) => {
        late();
        done(why);
      };
      call.on("data", (bytes: Buffer) => {
        try {
          reader.push(bytes, (message) => {
            if (models.length === 0) models.push(modelIn(model, message));
          });
        } catch (error) {
          over(`it cannot be read: ${quoted(String(error))}`);
          call.close(CANCEL);
        }
      });
      const onHeaders = (headers: Record<string, unknown>) => {
        if ((headers["grpc-status"] ?? "0") !== "0") over(statusText(headers));
      };
      call.on("response", onHeaders).on("trailers", onHeaders);
      call.on("error", (error) => over(error.message)).on("close", () => over(null));
      call.end(framedMessage(modelConfigRequest(model)));
    });
    call.close();
    reader.stop();
    const [first] = models;
    if (first === undefined)
      throw new TraceError(`cannot ask ${this.#authority} for model ${model}: ${why ?? "no answer"}`);
    this.#model = first;
    if (first.decoupled && !stream) throw new TraceError(`model ${model} is decoupled; remove --no-stream`);
  }

  prepare(): PreparedBody {
    return NOTHING_AHEAD;
  }

  whenQuiet(work: () => boolean): void {
    this.clock.turn(() => void work());
  }

  countFrom(us: number): void {
    this.#originUs = us;
  }

  send(order: PendingRequest, ended: (record: RequestRecord, text: string) => void): void {
    const { body, timeoutUs } = this.options;
    const model = this.#model!;
    const message = inferRequest(
      model.name,
      order.requestId,
      tensorsOf(model, turnText(order.turn, order.history), order.turn, body),
      body.stream && model.decoupled,
    );
    const answer = new Answer(READERS["triton-grpc"], this.#patterns, order.turn.outputTokens ?? 64, order.keepText);
    const startUs = this.clock.now();
    const stream = this.#open(body.stream ? "ModelStreamInfer" : "ModelInfer");
    const call: Call = { order, answer, stream, ended, startUs, cancels: [], sendUs: startUs, status: 0 };
    this.#calls.add(call);
    this.#listen(call);
    const stopIn = (us: number, kind: FailureClass, why: string) =>
      call.cancels.push(this.clock.at(startUs + us, () => this.#stop(call, kind, why)));
    stopIn(timeoutUs, "timeout", `no end after ${timeoutUs / 1e6} s`);
    const { disturb } = order;
    if (disturb?.kind === "cancelled") stopIn(disturb.afterUs, "cancelled", "by --cancel-rate");
    else if (disturb?.kind === "slow reader") this.#dawdle(call, disturb.pauseUs);
    stream.end(framedMessage(message));
  }

  cutAll(why: string): void {
    for (const call of [...this.#calls]) this.#stop(call, "unfinished", why);
  }

  close(): void {
    this.cutAll("closed");
    for (const { session } of this.#connections) session.destroy();
  }

  get #authority(): string {
    return listenUrl(this.options.target, this.options.target.tls);
  }

  #freeConnection(): GrpcConnection {
    const { insecure, ca } = this.options.target;
    const free = this.#connections.find(
      ({ streams, lost }) => !lost && streams < (this.options.pooled ? STREAMS_MOST : 1),
    );
    if (free !== undefined) return free;
    const session = connect(this.#authority, { rejectUnauthorized: !insecure, ...(ca === null ? {} : { ca }) });
    const connection: GrpcConnection = { session, streams: 0, lost: false };
    // The calls on this connection report the reason.
    session.on("error", () => (connection.lost = true));
    for (const event of ["goaway", "close"]) session.on(event, () => (connection.lost = true));
    this.connections.opened++;
    this.#connections.push(connection);
    return connection;
  }

  #open(method: string): ClientHttp2Stream {
    const connection = this.#freeConnection();
    connection.streams++;
    const headers = Object.entries(this.options.headers).map(([name, value]) => [name.toLowerCase(), value]);
    const stream = connection.session.request({
      ":method": "POST",
      ":path": SERVICE + method,
      "content-type": "application/grpc",
      te: "trailers",
      "user-agent": this.options.userAgent,
      ...Object.fromEntries(headers),
    });
    stream.on("close", () => {
      connection.streams--;
      if (!this.options.pooled || connection.lost) {
        connection.session.close();
        const at = this.#connections.indexOf(connection);
        if (at >= 0 && connection.streams === 0) this.#connections.splice(at, 1);
      }
    });
    return stream;
  }

  #listen(call: Call): void {
    const { stream, answer } = call;
    const streams = this.options.body.stream;
    const reader = new MessageReader(ANSWER_MOST, this.#patterns.held);
    let trailers: Record<string, unknown> | null = null;
    const headers = (headersPart: Record<string, unknown>) => {
      call.status = Number(headersPart[":status"] ?? call.status);
      if (headersPart["grpc-status"] !== undefined) trailers = headersPart;
    };
    stream.on("response", headers).on("trailers", headers);
    stream.on("data", (bytes: Buffer) => {
      answer.nowUs = this.clock.now();
      try {
        reader.push(bytes, (message) => this.#take(call, message, streams));
      } catch (error) {
        answer.fail("malformed", `it cannot be read: ${quoted(String(error))}`);
      }
      if (answer.isMalformed) stream.close(CANCEL);
    });
    let why = "";
    stream.on("error", (error) => (why = error.message));
    stream.on("close", () => {
      answer.nowUs = this.clock.now();
      reader.stop();
      const lost = call.status === 0 ? ("connect" as const) : ("mid-stream end" as const);
      if (trailers === null) answer.fail(lost, why || "the call ended without a status");
      else if (trailers["grpc-status"] !== "0") answer.fail("status", statusText(trailers));
      else if (answer.chunks === 0) answer.fail("no token", "the answer ended before its first output");
      this.#finish(call);
    });
  }

  #take({ answer }: Call, message: Uint8Array, streams: boolean): void {
    const { error, outputs, final, text } = answerIn(message, streams);
    if (error !== "") answer.fail("error event", error);
    else if (outputs > 0) {
      answer.output(text);
      this.outputs++;
    }
    if (final === true || !streams) answer.done = true;
  }

  #stop(call: Call, kind: FailureClass, why: string): void {
    if (!this.#calls.has(call)) return;
    call.answer.fail(kind, why);
    call.answer.nowUs = this.clock.now();
    call.stream.close(CANCEL);
    this.#finish(call);
  }

  /** Reads slowly: reads during one turn of the event loop, then pauses, and so on. */
  #dawdle(call: Call, pauseUs: number): void {
    call.stream.pause();
    call.cancels.push(
      this.clock.at(this.clock.now() + pauseUs, () => {
        call.stream.resume();
        this.clock.turn(() => {
          if (this.#calls.has(call)) this.#dawdle(call, pauseUs);
        });
      }),
    );
  }

  #finish(call: Call): void {
    if (!this.#calls.delete(call)) return;
    for (const cancel of call.cancels) cancel();
    call.answer.release();
    const { answer, order, ended, sendUs, status } = call;
    ended(
      answer.record({
        order,
        originUs: this.#originUs,
        sendUs,
        endUs: answer.nowUs,
        status,
        retries: 0,
      }),
      answer.text,
    );
  }
}

function statusText(headers: Record<string, unknown>): string {
  const code = Number(headers["grpc-status"]);
  return `${CODES[code] ?? code}: ${quoted(messageIn(`${headers["grpc-message"] ?? ""}`))}`;
}

/** Decodes a status message, which gRPC percent-encodes. Returns the text as it is if that fails. */
function messageIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
