/** How does a route answer without a socket, for `app.handle(request)`? By a `Response`; a stream is its body. */
import type { Context, EventSink, HttpFront, SinkEvents } from "./sink.ts";

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
const responses: HttpFront = {
  body: () => null,
  answer: (_, status, headers, body) => new Response(body as string | null, { status, headers }),
  open: (request, owner) => streams.set(request, new ResponseStream(owner)).get(request)!,
  begin: (request, status, headers) => new Response(streams.get(request)!.body, { status, headers }),
  version: () => "1.1",
  requestIP: () => null,
};

/** Who takes the answer: requests from a socket are none of the platform's own. */
export const frontOf = ({ request, server }: Context): HttpFront =>
  request instanceof Request ? responses : (server as HttpFront);
