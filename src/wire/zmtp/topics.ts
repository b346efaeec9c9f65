/** Keeps the topics to which a peer has subscribed. A topic is a prefix of a message's first frame. */

/** Topics of a peer, each counted once, and their bytes together. */
const TOPICS_MOST = 10_000;
const TOPIC_BYTES_MOST = 2 ** 20;

export class Topics {
  /** Numbers of subscriptions by topic, as text with one character per byte. */
  readonly #counts = new Map<string, number>();
  /** Numbers of topics by their length. A message needs one lookup for each length. */
  readonly #lengths = new Map<number, number>();
  #bytes = 0;

  /** Returns false, and keeps nothing, if there are too many. */
  add(topic: Uint8Array): boolean {
    const key = textOf(topic);
    const before = this.#counts.get(key);
    if (before === undefined) {
      if (this.#counts.size === TOPICS_MOST || this.#bytes + topic.length > TOPIC_BYTES_MOST) return false;
      this.#bytes += topic.length;
      this.#lengths.set(topic.length, (this.#lengths.get(topic.length) ?? 0) + 1);
    }
    this.#counts.set(key, (before ?? 0) + 1);
    return true;
  }

  /** Takes one subscription back. Ignores a topic that is not subscribed. */
  remove(topic: Uint8Array): void {
    const key = textOf(topic);
    const before = this.#counts.get(key);
    if (before === undefined) return;
    if (before > 1) {
      this.#counts.set(key, before - 1);
      return;
    }
    this.#counts.delete(key);
    this.#bytes -= topic.length;
    const left = this.#lengths.get(topic.length)! - 1;
    if (left === 0) this.#lengths.delete(topic.length);
    else this.#lengths.set(topic.length, left);
  }

  /** Reports whether a message with this first frame is wanted. */
  wants(first: Uint8Array): boolean {
    for (const length of this.#lengths.keys())
      if (length <= first.length && this.#counts.has(textOf(first.subarray(0, length)))) return true;
    return false;
  }

  *[Symbol.iterator](): Generator<Buffer, void> {
    for (const key of this.#counts.keys()) yield Buffer.from(key, "latin1");
  }
}

const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
