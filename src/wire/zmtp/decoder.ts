/** Takes apart what a peer sends: its greeting, its commands and its messages, in pieces of any size. */
import { Flag, GREETING_BYTES, type GreetingFacts, greetingFacts, SIGNATURE } from "./frames.ts";

/** Maximum size of all frames of a message together. */
const MESSAGE_BYTES_MOST = 64 * 2 ** 20;
const FRAMES_MOST = 8192;
const COMMAND_BYTES_MOST = 65_536;
const SHORT_HEAD = 2;
const LONG_HEAD = 9;
const NOTHING = Buffer.alloc(0);

/** A peer that violates the protocol or exceeds a limit. Its connection must be closed. */
export class ZmtpError extends Error {
  override readonly name = "ZmtpError";
}

/** Receives what a peer sends. A method may throw a `ZmtpError`, which the decoder passes on. */
export interface DecoderEvents {
  onGreeting(facts: GreetingFacts): void;
  onCommand(name: string, data: Uint8Array): void;
  /** Receives a whole message, whose memory belongs to the receiver. */
  onMessage(frames: readonly Uint8Array[]): void;
}

export class ZmtpDecoder {
  /** Bytes of a greeting, or of the flags and length before a frame, whose rest has not arrived. */
  #start: Buffer = NOTHING;
  #isGreeted = false;
  /** Flags of the frame whose content is arriving. -1 if none is. */
  #flags = -1;
  /** Content of this frame that has arrived. Grows as bytes arrive, because a peer may announce more than it sends. */
  #body: Buffer = NOTHING;
  #filled = 0;
  /** Length that the peer has announced for this frame, in bytes. */
  #length = 0;
  /** Frames of the unfinished message that have arrived in full. */
  #frames: Uint8Array[] = [];
  /** Size of these frames together, in bytes. */
  #bytes = 0;

  constructor(private readonly events: DecoderEvents) {}

  /** Memory for a message that has not arrived in full, in bytes. */
  get heldBytes(): number {
    return this.#bytes + this.#body.length + this.#start.length;
  }

  /** Reads the next bytes of the connection. The caller may overwrite them afterwards. Throws a `ZmtpError`. */
  feed(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) at = this.#flags < 0 ? this.#takeHead(bytes, at) : this.#takeBody(bytes, at);
  }

  /** Continues a greeting, or the flags and length before a frame. Returns the offset of the first byte after what it has read. */
  #takeHead(bytes: Uint8Array, from: number): number {
    const had = this.#start.length;
    const wanted = this.#isGreeted ? headBytes(had > 0 ? this.#start[0]! : bytes[from]!) : GREETING_BYTES;
    const end = Math.min(bytes.length, from + wanted - had);
    const start = Buffer.concat([this.#start, bytes.subarray(from, end)]);
    this.#start = start;
    if (!this.#isGreeted) refuseOther(start);
    if (start.length < wanted) return end;
    this.#start = NOTHING;
    if (this.#isGreeted) this.#begin(start);
    else {
      this.#isGreeted = true;
      this.events.onGreeting(greetingFacts(start));
    }
    return end;
  }

  #begin(head: Buffer): void {
    const flags = head[0]!;
    const length = flags & Flag.Long ? Number(head.readBigUInt64BE(1)) : head[1]!;
    const isCommand = (flags & Flag.Command) !== 0;
    if (flags > 7 || (isCommand && flags & Flag.More)) throw new ZmtpError(`no frame has the flags ${flags}`);
    if (isCommand && length > COMMAND_BYTES_MOST)
      throw new ZmtpError(`a command of ${length} bytes, and ${COMMAND_BYTES_MOST} are accepted`);
    if (!isCommand && this.#bytes + length > MESSAGE_BYTES_MOST)
      throw new ZmtpError(`a message of more than ${MESSAGE_BYTES_MOST} bytes`);
    if (!isCommand && this.#frames.length === FRAMES_MOST)
      throw new ZmtpError(`a message of more than ${FRAMES_MOST} frames`);
    this.#flags = flags;
    this.#length = length;
    if (length === 0) this.#end();
  }

  /** Reads on in the body of a frame. Returns the offset of the next byte. */
  #takeBody(bytes: Uint8Array, from: number): number {
    const end = Math.min(bytes.length, from + this.#length - this.#filled);
    const filled = this.#filled + end - from;
    if (filled > this.#body.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(this.#length, Math.max(filled, this.#body.length * 2)));
      this.#body.copy(larger, 0, 0, this.#filled);
      this.#body = larger;
    }
    this.#body.set(bytes.subarray(from, end), this.#filled);
    this.#filled = filled;
    if (filled === this.#length) this.#end();
    return end;
  }

  /** Ends a frame. */
  #end(): void {
    const flags = this.#flags;
    const body = this.#body;
    this.#flags = -1;
    this.#body = NOTHING;
    this.#filled = 0;
    if (flags & Flag.Command) {
      const nameEnd = 1 + (body[0] ?? 0);
      if (body.length < nameEnd || nameEnd === 1) throw new ZmtpError("a command without a name");
      this.events.onCommand(Buffer.from(body.subarray(1, nameEnd)).toString("latin1"), body.subarray(nameEnd));
      return;
    }
    this.#frames.push(body);
    this.#bytes += body.length;
    if (flags & Flag.More) return;
    const frames = this.#frames;
    this.#frames = [];
    this.#bytes = 0;
    this.events.onMessage(frames);
  }
}

const headBytes = (flags: number): number => (flags & Flag.Long ? LONG_HEAD : SHORT_HEAD);

/** Throws a `ZmtpError` if the bytes cannot begin a greeting of version 3. */
function refuseOther(start: Buffer): void {
  const last = SIGNATURE.length - 1;
  if (start[0] !== SIGNATURE[0] || (start.length > last && start[last] !== SIGNATURE[last]))
    throw new ZmtpError("the peer does not speak ZMTP 3: no greeting");
  const major = start[SIGNATURE.length];
  // Revision 1 is version 2.0 of the protocol.
  if (major !== undefined && major < 3)
    throw new ZmtpError(`the peer speaks version ${major + 1} of ZMTP, not version 3`);
}
