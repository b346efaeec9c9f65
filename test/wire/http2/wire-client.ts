/** An HTTP/2 client on a socket that checks nothing: it keeps every frame as received, and how the connection ended. */
import net from "node:net";
import { FrameFlag, FrameType, PREFACE } from "../../../src/wire/http2/frames.ts";
import { type HeaderField, HpackDecoder } from "../../../src/wire/http2/hpack.ts";
import { frame, headers, type SeenFrame, settings, windowUpdate } from "./peer.ts";

const WINDOW = 2 ** 30;
const PATIENCE_MS = 15_000;

export class WireClient {
  readonly frames: SeenFrame[] = [];
  /** Decoded header blocks, by their first frame. */
  readonly fields = new Map<SeenFrame, readonly HeaderField[]>();
  end: "fin" | "rst" | "open" = "open";
  readonly #socket: net.Socket;
  readonly #decoder = new HpackDecoder();
  #bytes = Buffer.alloc(0);
  #block: { first: SeenFrame; parts: Buffer[] } | null = null;
  #next = 1;
  #wake = () => {};

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.on("data", (data: Buffer) => this.#read(data));
    socket.on("end", () => this.#over("fin"));
    socket.on("error", () => this.#over("rst"));
    socket.on("close", () => this.#over("rst"));
  }

  /** `window`: initial window of streams. */
  static async connect(port: number, window = WINDOW): Promise<WireClient> {
    const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    const client = new WireClient(socket);
    socket.write(Buffer.concat([PREFACE, settings([4, window]), windowUpdate(0, WINDOW)]));
    return client;
  }

  /** Sends a request. Returns the number of its stream. */
  post(path: string, body: object, more: readonly HeaderField[] = []): number {
    const id = this.#next;
    this.#next += 2;
    const fields: HeaderField[] = [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", path],
      [":authority", "x"],
      ["content-type", "application/json"],
      ...more,
    ];
    const text = Buffer.from(JSON.stringify(body));
    this.send(headers(id, false, fields), frame(FrameType.Data, FrameFlag.EndStream, id, text));
    return id;
  }

  send(...parts: readonly Uint8Array[]): void {
    this.#socket.write(Buffer.concat(parts));
  }

  of(id: number, type: number): SeenFrame[] {
    return this.frames.filter((one) => one.id === id && one.type === type);
  }

  body(id: number): Buffer {
    return Buffer.concat(this.of(id, FrameType.Data).map(({ payload }) => payload));
  }

  /** Reports whether the stream is complete, was reset, or was lost with the connection. */
  isOver(id: number): boolean {
    const last = this.frames.some(
      (one) =>
        one.id === id &&
        (one.type === FrameType.RstStream ||
          ((one.type === FrameType.Data || one.type === FrameType.Headers) && (one.flags & FrameFlag.EndStream) !== 0)),
    );
    return last || this.end !== "open";
  }

  /** Waits until a condition holds, or the connection is closed. */
  async until(holds: () => boolean): Promise<void> {
    const late = setTimeout(() => this.#socket.destroy(), PATIENCE_MS);
    while (!holds() && !this.#socket.destroyed) await new Promise<void>((resolve) => (this.#wake = resolve));
    clearTimeout(late);
  }

  leave(): void {
    this.#socket.destroy();
  }

  #over(end: "fin" | "rst"): void {
    if (this.end === "open") this.end = end;
    this.#wake();
  }

  #read(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    while (this.#bytes.length >= 9) {
      const end = 9 + this.#bytes.readUIntBE(0, 3);
      if (this.#bytes.length < end) break;
      const [type, flags, id] = [this.#bytes[3]!, this.#bytes[4]!, this.#bytes.readUInt32BE(5)];
      this.#see({ type, flags, id, payload: this.#bytes.subarray(9, end) });
      this.#bytes = this.#bytes.subarray(end);
    }
    this.#wake();
  }

  #see(one: SeenFrame): void {
    this.frames.push(one);
    if (one.type === FrameType.Headers) this.#block = { first: one, parts: [] };
    if (one.type !== FrameType.Headers && one.type !== FrameType.Continuation) return;
    const { first, parts } = this.#block!;
    parts.push(one.payload);
    if (one.flags & FrameFlag.EndHeaders) this.fields.set(first, this.#decoder.decode(Buffer.concat(parts)));
  }
}
