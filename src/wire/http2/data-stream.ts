/** Sends the events of one stream over HTTP/2 as data. Several events may share a frame, and nothing is allocated per token. */
import { overwriteEachTurn } from "../../base/overwritten-buffers.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../http/sink.ts";
import type { DrainListener, Output } from "../http1/stream.ts";

/** Buffer in which an event is put together. Longer events get a buffer of their own. */
const scratch = Buffer.alloc(65_536);
overwriteEachTurn(() => scratch);

export class DataStream implements EventSink, DrainListener {
  #full = false;
  readonly #owner: SinkEvents;
  readonly #waiting: HeldBytes | null;
  readonly #output: Pick<Output, "send" | "finished" | "broken">;
  /**
   * Events written before the head; null once the head has been sent. The stream reports full after the first, so there are few.
   */
  #early: string[] | null = [];
  #endsEarly: "end" | "reset" | null = null;
  #over = false;
  #held = 0;

  constructor(owner: SinkEvents, waiting: HeldBytes | null, output: Pick<Output, "send" | "finished" | "broken">) {
    this.#owner = owner;
    this.#waiting = waiting;
    this.#output = output;
  }

  get full(): boolean {
    return this.#full;
  }

  write(event: string): boolean {
    if (this.#over) return true;
    if (this.#early !== null) {
      this.#early.push(event);
      this.#full = true;
      return false;
    }
    const length = Buffer.byteLength(event);
    const into = roomFor(length);
    into.write(event, 0, "utf8");
    return this.#sent(into, length);
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    if (this.#over) return true;
    if (this.#early !== null) return this.write(Buffer.concat([before, piece, after]).toString());
    const length = before.length + piece.length + after.length;
    const into = roomFor(length);
    into.set(before, 0);
    into.set(piece, before.length);
    into.set(after, before.length + piece.length);
    return this.#sent(into, length);
  }

  end(): void {
    if (this.#early !== null) this.#endsEarly ??= "end";
    else if (!this.#over) {
      this.#over = true;
      this.#output.finished();
    }
  }

  reset(): void {
    if (this.#early !== null) this.#endsEarly ??= "reset";
    else if (!this.#over) {
      this.#over = true;
      this.#output.broken();
    }
  }

  /** Starts the stream, because the head has been sent. Called by the exchange, as are all methods below. */
  begin(): void {
    const waited = this.#early ?? [];
    this.#early = null;
    this.#full = false;
    for (const event of waited) this.write(event);
    if (this.#endsEarly === "end") this.end();
    else if (this.#endsEarly === "reset") this.reset();
    else if (waited.length > 0 && !this.#full) this.#owner.onDrain();
  }

  drained(): void {
    this.#waits(-this.#held);
    this.#full = false;
    if (!this.#over) this.#owner.onDrain();
  }

  gone(): void {
    if (this.#over) return;
    this.#over = true;
    this.#owner.onGone();
  }

  #sent(bytes: Buffer, length: number): boolean {
    const left = this.#output.send(bytes, length, this);
    if (left > 0) {
      this.#full = true;
      this.#waits(left);
    }
    return !this.#full;
  }

  #waits(bytes: number): void {
    if (bytes === 0) return;
    this.#held += bytes;
    this.#waiting?.held(bytes);
  }
}

const roomFor = (length: number): Buffer => (length <= scratch.length ? scratch : Buffer.alloc(length));
