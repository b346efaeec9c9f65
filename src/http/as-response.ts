/** How does a route answer without a socket, for `app.handle(request)`? By a `Response`; a stream is its body. */
import type { Context, EventSink, HttpFront, PartSink, SinkEvents } from "./sink.ts";

const encoder = new TextEncoder();

/** Full from the first event on that nobody has read. */
class ResponseStream implements EventSink {
  full = false;
  readonly body: ReadableStream<Uint8Array>;
  #out!: ReadableStreamDefaultController<Uint8Array>;
  #open = true;

  constructor(owner: SinkEvents) {
    this.body = new ReadableStream({
      start: (out) => {
        this.#out = out;
      },
      pull: () => {
        if (!this.full) return;
        this.full = false;
        owner.onDrain();
      },
      cancel: () => {
        this.#open = false;
        owner.onGone();
      },
    });
  }

  write(event: string): boolean {
    return this.writeParts(encoder.encode(event));
  }

  writeParts(...parts: Uint8Array[]): boolean {
    if (this.#open) this.#out.enqueue(Buffer.concat(parts));
    this.full = this.#open && this.#out.desiredSize! <= 0;
    return !this.full;
  }

  end(): void {
    if (this.#open) this.#out.close();
    this.#open = false;
  }

  reset(): void {
    if (this.#open) this.#out.error(new Error("the stream was broken off"));
    this.#open = false;
  }
}

const streams = new WeakMap<Request, ResponseStream>();
/** A stream that ends by itself when so many bytes were written. */
function wholeOf(owner: SinkEvents, bytes: number): { readonly sink: PartSink; readonly body: ReadableStream } {
  const stream = new ResponseStream(owner);
  let left = bytes;
  const sink: PartSink = {
    get full() {
      return stream.full;
    },
    write(part) {
      const goesOn = stream.writeParts(part);
      left -= part.length;
      if (left <= 0) stream.end();
      return goesOn;
    },
  };
  return { sink, body: stream.body };
}

const responses: HttpFront = {
  body: () => null,
  answer: (_, status, headers, body) => new Response(body as string | null, { status, headers }),
  open: (request, owner) => streams.set(request, new ResponseStream(owner)).get(request)!,
  begin: (request, status, headers) => new Response(streams.get(request)!.body, { status, headers }),
  beginWhole(_, owner, status, headers, bytes) {
    const { sink, body } = wholeOf(owner, bytes);
    return { sink, response: new Response(body, { status, headers: { ...headers, "content-length": String(bytes) } }) };
  },
  version: () => "1.1",
  requestIP: () => null,
};

/** Who takes the answer: requests from a socket are none of the platform's own. */
export const frontOf = ({ request, server }: Context): HttpFront =>
  request instanceof Request ? responses : (server as HttpFront);
