/**
 * Keeps the last batches, and sends them to clients that missed some. Source: `ZmqEventPublisher` in vLLM 0.33.0
 * `vllm/distributed/kv_events.py`.
 */

/** Bytes of all kept batches. vLLM only limits their number. */
const KEPT_BYTES_MOST = 256 * 2 ** 20;
/** Requests of a client that may wait for the end of its replay. */
const WAITING_MOST = 16;
const SEQUENCE_BYTES = 8;
/** The sequence of the message that ends a replay. */
export const END_SEQUENCE = Buffer.alloc(SEQUENCE_BYTES, 0xff);
const EMPTY = Buffer.alloc(0);
/** Kept batches are removed from the list together, because removing one moves all others. */
const REMOVED_TOGETHER = 1024;

/** Returns the second frame of a message. */
export function sequenceFrame(sequence: number): Buffer {
  const frame = Buffer.allocUnsafe(SEQUENCE_BYTES);
  frame.writeBigUInt64BE(BigInt(sequence));
  return frame;
}

/** A batch as it is sent. */
export interface EncodedBatch {
  readonly sequence: number;
  readonly payload: Buffer;
}

/** The replays of a client. */
interface ReplayingClient {
  readonly identity: Buffer;
  /** Smallest sequences of the replays that wait, after the one that is sent. */
  readonly starts: number[];
  /** Sequence after the last batch that was sent, and the sequence before which the replay ends. */
  next: number;
  end: number;
}

/** Sends a message to a client. Returns false if too many messages wait for it, or if it is gone. */
export type SendToClient = (identity: Buffer, frames: readonly Uint8Array[]) => boolean;

export class ReplayBuffer {
  #kept: EncodedBatch[] = [];
  /** Index of the oldest kept batch. */
  #from = 0;
  #bytes = 0;
  readonly #clients = new Map<string, ReplayingClient>();

  constructor(
    private readonly batchesMost: number,
    private readonly topic: Buffer,
    private readonly send: SendToClient,
  ) {}

  keep(sequence: number, payload: Buffer): void {
    if (this.batchesMost === 0) return;
    this.#kept.push({ sequence, payload });
    this.#bytes += payload.length;
    while (this.#kept.length - this.#from > this.batchesMost || this.#bytes > KEPT_BYTES_MOST)
      this.#bytes -= this.#kept[this.#from++]!.payload.length;
    if (this.#from < REMOVED_TOGETHER && this.#from < this.#kept.length) return;
    this.#kept.splice(0, this.#from);
    this.#from = 0;
  }

  /** Drops all kept batches, because sequences start again. */
  clear(): void {
    this.#kept = [];
    this.#from = 0;
    this.#bytes = 0;
  }

  /** Takes a request: an empty frame and a sequence. Returns false if the frames are anything else. */
  requested(identity: Buffer, frames: readonly Uint8Array[]): boolean {
    if (frames.length !== 2) return false;
    const start = sequenceOf(frames[1]!);
    const key = identity.toString("latin1");
    const client = this.#clients.get(key);
    if (client === undefined) {
      const begun: ReplayingClient = { identity, starts: [], next: start, end: this.#end };
      this.#clients.set(key, begun);
      this.#continue(key, begun);
    } else if (client.starts.length < WAITING_MOST) client.starts.push(start);
    return true;
  }

  /** Continues replays whose client has read. */
  drained(): void {
    for (const [key, client] of [...this.#clients]) this.#continue(key, client);
  }

  left(identity: Buffer): void {
    this.#clients.delete(identity.toString("latin1"));
  }

  get #end(): number {
    return (this.#kept.at(-1)?.sequence ?? -1) + 1;
  }

  #continue(key: string, client: ReplayingClient): void {
    for (;;) {
      if (!this.#sendBatches(client) || !this.send(client.identity, [EMPTY, EMPTY, END_SEQUENCE, EMPTY])) return;
      const start = client.starts.shift();
      if (start === undefined) break;
      client.next = start;
      client.end = this.#end;
    }
    this.#clients.delete(key);
  }

  /** Returns false if the client must read first. */
  #sendBatches(client: ReplayingClient): boolean {
    for (let at = this.#indexOf(client.next); at < this.#kept.length; at++) {
      const { sequence, payload } = this.#kept[at]!;
      if (sequence >= client.end) break;
      if (!this.send(client.identity, [EMPTY, this.topic, sequenceFrame(sequence), payload])) return false;
      client.next = sequence + 1;
    }
    return true;
  }

  /** Returns the index of the oldest kept batch with this sequence or a later one. */
  #indexOf(sequence: number): number {
    let low = this.#from;
    let high = this.#kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#kept[middle]!.sequence < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Returns the integer that the bytes are in big endian, at most 2^53. vLLM accepts any number of bytes. */
function sequenceOf(bytes: Uint8Array): number {
  let sequence = 0;
  for (const byte of bytes) sequence = Math.min(2 ** 53, sequence * 256 + byte);
  return sequence;
}
