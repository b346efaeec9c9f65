/**
 * Answers programs that call `app.handle(request)` without a socket: with a `Response`, whose body is the stream if there is one.
 */
import type { HttpRequest } from "./request.ts";
import type { EventSink, HttpFront, PartSink, SinkEvents } from "./sink.ts";

/**
 * A stream as the body of a `Response`. It is full while its reader has bytes left to read. With a known length it ends after
 * that many bytes.
 */
class ResponseStream implements EventSink, PartSink {
  full = false;
  readonly body: ReadableStream<Uint8Array>;
  #out: ReadableStreamDefaultController<Uint8Array> | null = null;
  #bytesLeft: number;

  constructor(owner: SinkEvents, bytes = Number.POSITIVE_INFINITY) {
    this.#bytesLeft = bytes;
    this.body = new ReadableStream({
      start: (out) => {
        this.#out = out;
      },
      pull: () => {
        if (this.full) queueMicrotask(() => owner.onDrain());
        this.full = false;
      },
      cancel: () => {
        this.#out = null;
        owner.onGone();
      },
    });
  }

  write = (part: string | Uint8Array) => this.writeParts(typeof part === "string" ? Buffer.from(part) : part);
  writeParts(...parts: Uint8Array[]): boolean {
    const whole = Buffer.concat(parts);
    this.#out?.enqueue(whole);
    this.full = this.#out !== null && this.#out.desiredSize! <= 0;
    this.#bytesLeft -= whole.length;
    if (this.#bytesLeft <= 0) this.end();
    return !this.full;
  }
  end = () => this.#end((out) => out.close());
  reset = () => this.#end((out) => out.error(new Error("the server broke the stream off")));
  #end(how: (out: ReadableStreamDefaultController<Uint8Array>) => void): void {
    if (this.#out !== null) how(this.#out);
    this.#out = null;
  }
}

const streams = new WeakMap<HttpRequest, ResponseStream>();
export const asResponses: HttpFront = {
  body: () => null,
  answer: (_, status, headers, body) => new Response(body as string | null, { status, headers }),
  open: (request, owner) => streams.set(request, new ResponseStream(owner)).get(request)!,
  begin: (request, status, headers) => new Response(streams.get(request)!.body, { status, headers }),
  beginWhole(_, owner, status, headers, bytes) {
    const sink = new ResponseStream(owner, bytes);
    return {
      sink,
      response: new Response(sink.body, { status, headers: { ...headers, "content-length": `${bytes}` } }),
    };
  },
  version: () => "1.1",
  requestIP: () => null,
};
