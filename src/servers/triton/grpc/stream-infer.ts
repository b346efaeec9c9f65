/**
 * Implements `ModelStreamInfer`: any number of requests for any models. Answers of decoupled models are sent as they come,
 * others in the order of their requests. Errors are messages. Source: `stream_infer_handler.cc` (2026), and observations on
 * 2.51.
 */

import type { CallHandler, GrpcCall } from "../../../wire/grpc/call.ts";
import type { GrpcMethod } from "../../../wire/grpc/server.ts";
import type { GrpcStatus } from "../../../wire/grpc/status.ts";
import type { TextStream } from "../behaviours/behaviour.ts";
import type { InferAnswer, InferRequest } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { isDecoupled } from "../model-config/model-config.ts";
import { TritonError } from "../model-config/status.ts";
import type { VersionNumber } from "../models/table.ts";
import { versionNumber } from "../models/version-number.ts";
import { OrderedResponses } from "../scheduling/ordered.ts";
import { AlikeResponses } from "./alike-responses.ts";
import { caught, type Inference, type InferRead, sentOutputs, statusOf } from "./answers.ts";
import type { GrpcWish } from "./infer-request.ts";
import { ResponseWriter, responseHead } from "./infer-response.ts";
import { UNREADABLE } from "./reading.ts";

/** Most running requests per stream. At the limit, the client's messages are not read. */
const RUNNING_MOST = 1024;
/** Most unread bytes of answers. Above it, the requests are cancelled and the stream is reset. */
const WAITING_BYTES_MOST = 16 * 2 ** 20;
/** Most bytes of messages that wait while requests run. Above it, the stream ends. */
const LATER_BYTES_MOST = 64 * 2 ** 20;

export const streamInferMethod = (inference: Inference): GrpcMethod => {
  const writer = new ResponseWriter();
  return (call) => new StreamInfer(call, inference, writer);
};

class StreamInfer implements CallHandler {
  /** True if the first error of an accepted request ends the stream with its status. */
  readonly #strict: boolean;
  readonly #running = new Set<StreamRequestEntry>();
  readonly #ordered = new OrderedResponses<StreamRequestEntry>();
  /** Messages that wait because too many requests run. */
  readonly #later: Uint8Array[] = [];
  #laterBytes = 0;
  #taking = false;
  #halfClosed = false;

  constructor(
    private readonly call: GrpcCall,
    private readonly inference: Inference,
    private readonly writer: ResponseWriter,
  ) {
    this.#strict = call.metadata("triton_grpc_error") === "true";
    inference.around.turns.opened?.();
  }

  message(bytes: Uint8Array): void | Promise<void> {
    if (this.#halfClosed) return;
    this.#later.push(bytes);
    this.#waits(bytes.length);
    const reading = this.#next();
    if (this.#later.length > 0) this.call.pause();
    if (this.#laterBytes > LATER_BYTES_MOST) {
      const message = `more than ${LATER_BYTES_MOST} bytes of requests wait on one stream`;
      this.#stop(() => this.call.end({ code: "RESOURCE_EXHAUSTED", message }));
    }
    return reading;
  }

  halfClosed(): void {
    this.#halfClosed = true;
    this.#look();
  }

  cancelled(): void {
    this.#dropLater();
    for (const { request } of this.#running) if (request !== null) request.cancelled = true;
  }

  /** Counts bytes of waiting requests, for this stream and for all calls. */
  #waits(bytes: number): void {
    this.#laterBytes += bytes;
    this.inference.around.messages.bytes += bytes;
  }

  #dropLater(): void {
    this.#later.length = 0;
    this.#waits(-this.#laterBytes);
  }

  /**
   * Starts the requests that may run. A nested call makes the outer loop run again. Returns a promise while a request is
   * parsed.
   */
  #next(): void | Promise<void> {
    if (this.#taking) return;
    this.#taking = true;
    while (this.#running.size < RUNNING_MOST && this.#later.length > 0) {
      const bytes = this.#later.shift()!;
      this.#waits(-bytes.length);
      const read = this.inference.read(bytes, this.call);
      if (read instanceof Promise) return read.then((one) => this.#goOn(one));
      this.#take(read);
    }
    this.#taking = false;
    this.#look();
  }

  #goOn(read: InferRead | GrpcStatus): void | Promise<void> {
    this.#take(read);
    this.#taking = false;
    const reading = this.#next();
    this.#afterTaking();
    return reading;
  }

  #take(read: InferRead | GrpcStatus): void {
    if (read === UNREADABLE) {
      // Invalid bytes end the stream of requests, as in the real server. Earlier requests are still answered.
      this.#halfClosed = true;
      this.#dropLater();
      return;
    }
    if ("code" in read) {
      this.#stop(() => this.call.end(read));
      return;
    }
    if (this.call.over) {
      read.room.free();
      return;
    }
    const one = new StreamRequestEntry(read);
    this.#running.add(one);
    const failed = caught(() => this.#begin(one, read));
    if (one.request === null) read.room.free();
    if (failed) {
      const error = () => this.#send(failed.message, responseHead("", "", one.asked.id), null);
      if (one.decoupled) error();
      else this.#ordered.send(one, error, true);
      this.#ended(one);
    }
  }

  #begin(one: StreamRequestEntry, read: InferRead): void {
    const { wish } = read;
    const { around } = this.inference;
    const version = caught(() => versionNumber(one.asked.version));
    const found = version instanceof TritonError ? version : caught(() => around.server.find(one.asked.model, version));
    one.decoupled = !(found instanceof TritonError) && isDecoupled(found.config);
    if (!one.decoupled) this.#ordered.enter(one);
    if (found instanceof TritonError) throw found;
    if (wish instanceof TritonError) throw wish;
    one.served = found;
    one.wish = wish;
    one.request = this.inference.begin(version as VersionNumber, read, {
      respond: (answer, final) => this.#came(one, answer, final),
      plainText: (output) => (one.decoupled ? this.#plain(one, output) : null),
    });
  }

  /** Returns a sink for pieces of text after the first response. Each piece becomes a message without a response object. */
  #plain(one: StreamRequestEntry, output: string): TextStream {
    const call = this.call;
    const writer = this.writer;
    const text = { name: output, datatype: "BYTES", shape: [1] } as const;
    const before = writer.before({ head: headOf(one), parameters: [], final: false, outputs: [text] });
    return {
      escaped: false,
      get full() {
        return call.queued > 0;
      },
      write: (piece) => {
        const length = writer.streamedText(before, piece);
        call.send(writer.bytes, length);
      },
    };
  }

  #came(one: StreamRequestEntry, answer: InferAnswer | TritonError | null, final: boolean): void {
    if (one.decoupled) this.#answer(one, answer, final);
    else this.#ordered.send(one, () => this.#answer(one, answer, final), final);
    if (final) this.#ended(one);
  }

  #answer(one: StreamRequestEntry, given: InferAnswer | TritonError | null, final: boolean): void {
    if (this.call.over) return;
    const outputs = given === null || given instanceof TritonError ? given : sentOutputs(given, one.wish!, one.served!);
    if (outputs instanceof TritonError && this.#strict) {
      this.#stop(() => this.call.end(statusOf(outputs)));
    } else if (outputs === null || outputs instanceof TritonError) {
      if (outputs === null && !(one.wish!.emptyFinal && one.decoupled && final)) return;
      const head = responseHead(one.asked.model, one.asked.version, one.asked.id);
      this.#send(outputs?.message ?? "", head, final);
    } else {
      const { parameters } = given as InferAnswer;
      one.responses ??= new AlikeResponses(this.writer);
      this.#written(one.responses.write({ head: headOf(one), parameters, final, outputs }));
    }
  }

  /** Sends a response without outputs. */
  #send(error: string, head: Uint8Array, final: boolean | null): void {
    this.#written(this.writer.streamed(error, { head, parameters: [], final, outputs: [] }));
  }

  /** Sends the first `length` bytes of the writer. */
  #written(length: number): void {
    if (this.call.queued > WAITING_BYTES_MOST) this.#stop(() => this.call.drop());
    else this.call.send(this.writer.bytes, length);
  }

  #stop(end: () => void): void {
    this.cancelled();
    end();
  }

  #ended(one: StreamRequestEntry): void {
    this.#running.delete(one);
    if (this.#later.length > 0) void this.#next()?.catch((why) => this.call.fail(why));
    this.#afterTaking();
  }

  #afterTaking(): void {
    if (this.#later.length === 0 && !this.#taking) this.call.resume();
    this.#look();
  }

  #look(): void {
    const isIdle = this.#running.size === 0 && this.#later.length === 0 && !this.#taking;
    if (this.#halfClosed && isIdle) this.call.end();
  }
}

function headOf(one: StreamRequestEntry): Uint8Array {
  one.head ??= responseHead(one.served!.name, `${one.served!.version}`, one.asked.id);
  return one.head;
}

/** A request of a stream. */
class StreamRequestEntry {
  request: InferRequest | null = null;
  decoupled = false;
  /** The model and the requested outputs. Null before the request begins. */
  served: ModelVersion | null = null;
  wish: GrpcWish | null = null;
  /** Encoded model, version and id of its responses. Null before the first one. */
  head: Uint8Array | null = null;
  responses: AlikeResponses | null = null;

  constructor(readonly asked: Pick<InferRead, "model" | "version" | "id">) {}
}
