/** One connection to a peer: the handshake, what arrives, and what waits until the peer reads it. */
import { logUnexpected } from "../../base/unexpected.ts";
import type { TimedItem } from "../http/deadlines.ts";
import { type DecoderEvents, ZmtpDecoder, ZmtpError } from "./decoder.ts";
import { command, type GreetingFacts, greeting, ready, readyProperties } from "./frames.ts";
import { Topics } from "./topics.ts";
import { WaitingParts } from "./waiting-parts.ts";

/** Types of sockets that we can be. */
export type SocketType = "DEALER" | "ROUTER" | "PUSH" | "PULL" | "PUB" | "SUB" | "XSUB";

/** Types that may be at the other end. */
const PEERS: Readonly<Record<SocketType, readonly string[]>> = {
  DEALER: ["DEALER", "ROUTER", "REP"],
  ROUTER: ["DEALER", "ROUTER", "REQ"],
  PUSH: ["PULL"],
  PULL: ["PUSH"],
  PUB: ["SUB", "XSUB"],
  SUB: ["PUB", "XPUB"],
  XSUB: ["PUB", "XPUB"],
};

/** Bytes that wait for a peer, whatever the number of messages. One message may exceed it. */
const WAITING_BYTES_MOST = 64 * 2 ** 20;
const IDENTITY_BYTES_MOST = 255;
/** A PING has a time to live in its first bytes. The rest, its context, is sent back. */
const TTL_BYTES = 2;
const CONTEXT_BYTES_MOST = 16;

/** The socket of a peer, as the peer uses it. */
export interface PeerOwner {
  readonly type: SocketType;
  /** Identity that we announce, or null. */
  readonly identity: Uint8Array | null;
  /** Most messages that wait for a peer. */
  readonly highWaterMark: number;
  /** Called after the handshake. Returns the reason if the peer is not accepted, else null. */
  joined(peer: Peer): string | null;
  received(peer: Peer, frames: readonly Uint8Array[]): void;
  /** Called once, when the connection has ended. `why`: the reason if we ended it, or null. */
  left(peer: Peer, why: string | null): void;
  /** Called when messages may be sent again to a peer that had too many. */
  drained(peer: Peer): void;
}

/** Methods of `Bun.Socket` that a peer uses. */
export type PeerSocket = Pick<Bun.Socket<unknown>, "write" | "end" | "terminate">;

export class Peer implements DecoderEvents, TimedItem {
  /** Identity that the peer has announced, or null. */
  identity: Buffer | null = null;
  /** True after the handshake, until the connection ends. */
  isReady = false;
  /** Topics that the peer wants, if we are a PUB. */
  readonly topics = new Topics();
  readonly #decoder = new ZmtpDecoder(this);
  /** Parts of messages that the operating system has not accepted. The end of a message is marked. */
  readonly #waiting = new WaitingParts();
  #isOver = false;
  #isEnding = false;

  constructor(
    private readonly socket: PeerSocket,
    private readonly owner: PeerOwner,
  ) {}

  /** Begins the handshake. */
  greet(): void {
    this.#write([greeting(1)]);
  }

  /** True if another message may be sent. */
  get hasRoom(): boolean {
    return (
      this.isReady && this.#waiting.messages < this.owner.highWaterMark && this.#waiting.bytes < WAITING_BYTES_MOST
    );
  }

  /** Bytes that wait to be sent. */
  get waitingBytes(): number {
    return this.#waiting.bytes;
  }

  /** Bytes that are held of a message that has not arrived whole. */
  get heldBytes(): number {
    return this.#decoder.heldBytes;
  }

  /** Sends the parts of a message. Returns false, and sends nothing, if too many messages wait. */
  send(parts: readonly Uint8Array[]): boolean {
    if (!this.hasRoom) return false;
    this.#write(parts);
    return true;
  }

  /** Takes bytes from the connection. A violation of the protocol ends it. */
  data(bytes: Uint8Array): void {
    if (this.#isOver) return;
    try {
      this.#decoder.feed(bytes);
    } catch (error) {
      if (error instanceof ZmtpError) this.cut(error.message);
      else {
        logUnexpected("a message of a ZeroMQ peer failed, and its connection is closed", error);
        this.cut("internal error");
      }
    }
  }

  /** Continues to write. */
  drain(): void {
    const was = this.hasRoom;
    for (let next = this.#waiting.first; next !== undefined; next = this.#waiting.first) {
      const taken = this.#writeNow(next);
      if (taken < 0) return;
      this.#waiting.taken(taken);
      if (taken < next.length) break;
    }
    if (this.#isEnding && this.#waiting.bytes === 0) this.socket.end();
    else if (!was && this.hasRoom) this.owner.drained(this);
  }

  /** Ends the connection after what waits has been sent. */
  end(): void {
    this.#isEnding = true;
    if (this.#waiting.bytes === 0) this.socket.end();
  }

  /** Ends the connection at once. */
  cut(why: string | null): void {
    // The runtime reports the end within the call.
    this.lost(why);
    this.socket.terminate();
  }

  /** Called when the handshake has taken too long. */
  expire(): void {
    this.cut("the handshake took too long");
  }

  /** Forgets everything, because the connection has ended. */
  lost(why: string | null = null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.isReady = false;
    this.#waiting.clear();
    this.owner.left(this, why);
  }

  onGreeting({ mechanism }: GreetingFacts): void {
    if (mechanism !== "NULL") throw new ZmtpError(`the peer wants the mechanism ${mechanism}; NULL is accepted`);
    this.#write([ready(this.owner.type, this.owner.identity)]);
  }

  onCommand(name: string, data: Uint8Array): void {
    if (name === "READY" && !this.isReady) this.#handshake(data);
    else if (name === "ERROR") throw new ZmtpError(`the peer refused: ${Buffer.from(data.subarray(1)).toString()}`);
    else if (!this.isReady) throw new ZmtpError(`a command ${name} before READY`);
    else if (name === "PING") this.#pong(data);
    else if (name === "SUBSCRIBE") this.#subscribe(data);
    else if (name === "CANCEL") this.topics.remove(data);
  }

  onMessage(frames: readonly Uint8Array[]): void {
    if (!this.isReady) throw new ZmtpError("a message before READY");
    if (this.owner.type !== "PUB") {
      this.owner.received(this, frames);
      return;
    }
    // Version 3.0 subscribes with messages. A PUB receives no others.
    const [first] = frames;
    if (first?.[0] === 1) this.#subscribe(first.subarray(1));
    else if (first?.[0] === 0) this.topics.remove(first.subarray(1));
  }

  #handshake(data: Uint8Array): void {
    const named = readyProperties(data);
    const type = Buffer.from(named?.get("socket-type") ?? []).toString("latin1");
    if (!PEERS[this.owner.type].includes(type))
      throw new ZmtpError(`the peer's socket is ${type || "nameless"}; accepted: ${PEERS[this.owner.type].join(", ")}`);
    const identity = named?.get("identity");
    if (identity !== undefined && identity.length > IDENTITY_BYTES_MOST)
      throw new ZmtpError(`an identity of ${identity.length} bytes`);
    if (identity !== undefined && identity.length > 0) this.identity = Buffer.from(identity);
    this.isReady = true;
    const refused = this.owner.joined(this);
    if (refused !== null) throw new ZmtpError(refused);
  }

  #subscribe(topic: Uint8Array): void {
    if (!this.topics.add(topic)) throw new ZmtpError("too many topics");
  }

  #pong(data: Uint8Array): void {
    const context = data.subarray(TTL_BYTES, TTL_BYTES + CONTEXT_BYTES_MOST);
    // A peer that sends PINGs without reading must not fill memory.
    if (this.hasRoom) this.#write([command("PONG", context)]);
  }

  #write(parts: readonly Uint8Array[]): void {
    let at = 0;
    if (this.#waiting.bytes === 0)
      for (; at < parts.length; at++) {
        const bytes = parts[at]!;
        const taken = this.#writeNow(bytes);
        if (taken < 0) return;
        if (taken < bytes.length) {
          this.#waiting.add([bytes.subarray(taken), ...parts.slice(at + 1)]);
          return;
        }
      }
    if (at < parts.length) this.#waiting.add(parts);
  }

  /** Returns how many bytes were accepted. -1: the connection has ended. */
  #writeNow(bytes: Uint8Array): number {
    if (this.#isOver) return -1;
    const taken = bytes.length === 0 ? 0 : this.socket.write(bytes);
    if (taken < 0) this.cut("writing failed");
    return taken;
  }
}
