/**
 * ZeroMQ sockets over TCP and Unix sockets, without a ZeroMQ library. Speaks ZMTP 3.1, and 3.0 with older peers, with the mechanism
 * NULL. Source: ZeroMQ RFC 23 and 37, and libzmq 4.3.5, whose defaults are used.
 */
import { logUnexpected } from "../../base/unexpected.ts";
import { type Deadlines, deadlines, type Timer } from "../http/deadlines.ts";
import { addressText, type ZmtpAddress, zmtpAddress } from "./endpoint.ts";
import { zmtpParts } from "./frames.ts";
import { Peer, type PeerOwner, type SocketType } from "./peer.ts";
import { Topics } from "./topics.ts";

/** Most peers of a socket. Further connections are closed at once. */
const PEERS_MOST = 1024;
/** Default of ZMQ_SNDHWM. */
const HIGH_WATER_MARK = 1000;
/** Default of ZMQ_HANDSHAKE_IVL. */
const HANDSHAKE_S = 30;
/** First and longest wait between two attempts to connect. */
const RECONNECT_FIRST_US = 100_000;
const RECONNECT_MOST_US = 5_000_000;

export interface ZmtpOptions {
  readonly timer: Required<Timer>;
  /** Identity that peers see. Default: none, so that a ROUTER makes one. */
  readonly identity?: Uint8Array;
  /** Most messages that wait for a peer. Default: 1,000. 0, as in libzmq: only their bytes are limited. */
  readonly highWaterMark?: number;
  /** Receives a message. `peer`: identity of its sender, also for `sendTo`. */
  readonly onMessage?: (frames: readonly Uint8Array[], peer: Buffer) => void;
  /** Called when a peer has completed its handshake, so that messages can be exchanged with it. */
  readonly onJoin?: (peer: Buffer) => void;
  /** Called when the connection to such a peer has ended. */
  readonly onLeave?: (peer: Buffer) => void;
  /** Called when a peer has read so much of what waited for it that another message can be sent to it. */
  readonly onDrain?: () => void;
  /** Receives a line of text about each peer whose connection we closed, with the reason. */
  readonly log?: (line: string) => void;
}

/** A connection that we open, and open again when it ends. */
interface Reconnection {
  readonly address: ZmtpAddress;
  waitUs: number;
}

type Connection = Bun.Socket<{ peer: Peer | null }>;

export class ZmtpSocket implements PeerOwner {
  readonly identity: Uint8Array | null;
  readonly highWaterMark: number;
  /** Number of messages that were not sent to a peer, because it had gone or because too many messages waited for it. */
  dropped = 0;
  /** Peers by identity, after their handshake, in the order in which they get messages. */
  readonly #joined = new Map<string, Peer>();
  readonly #identities = new Map<Peer, Buffer>();
  /** All peers, with the connection that we open again if theirs ends, or null. */
  readonly #peers = new Map<Peer, Reconnection | null>();
  readonly #listeners: Bun.SocketListener<unknown>[] = [];
  readonly #handshakes: Deadlines;
  /** Topics to which we have subscribed. */
  readonly #wanted = new Topics();
  readonly #retries = new Set<() => void>();
  #made = 0;
  #turn = 0;
  #closed: ReturnType<typeof Promise.withResolvers<void>> | null = null;

  constructor(
    readonly type: SocketType,
    private readonly options: ZmtpOptions,
  ) {
    this.identity = options.identity ?? null;
    this.highWaterMark = (options.highWaterMark ?? HIGH_WATER_MARK) || Number.POSITIVE_INFINITY;
    this.#handshakes = deadlines(HANDSHAKE_S, options.timer)!;
  }

  /** Identities of the peers that have joined. */
  get peers(): readonly Buffer[] {
    return [...this.#identities.values()];
  }

  /** Bytes that are held for all peers: messages that wait, and parts of messages. */
  get heldBytes(): number {
    let bytes = 0;
    for (const peer of this.#peers.keys()) bytes += peer.waitingBytes + peer.heldBytes;
    return bytes;
  }

  /**
   * Listens at an address, such as `tcp://127.0.0.1:0`. Returns the address with its port. Throws a `RangeError` for a malformed
   * address, and an `Error` that names the address if it cannot be used.
   */
  bind(endpoint: string): string {
    const address = parsed(endpoint);
    const socket = this.#handlers(null);
    const listener = listening(endpoint, () =>
      "unix" in address ? Bun.listen({ ...address, socket }) : Bun.listen({ ...address, socket }),
    );
    this.#listeners.push(listener as Bun.SocketListener<unknown>);
    if ("unix" in address) return endpoint;
    return addressText({ hostname: address.hostname, port: (listener as Bun.TCPSocketListener<unknown>).port });
  }

  /** Connects to an address, now and whenever the connection has ended. Throws a `RangeError` for a malformed address. */
  connect(endpoint: string): void {
    this.#dial({ address: parsed(endpoint), waitUs: RECONNECT_FIRST_US });
  }

  /**
   * Sends a message to one peer that has room, in turn. Returns false, and sends nothing, if none has. The memory of long frames is
   * used until it is sent, so that it must not change.
   */
  send(frames: readonly Uint8Array[]): boolean {
    const peers = [...this.#joined.values()];
    const parts = zmtpParts(frames);
    for (let tried = 0; tried < peers.length; tried++) {
      const peer = peers[(this.#turn + tried) % peers.length]!;
      if (!peer.send(parts)) continue;
      this.#turn = (this.#turn + tried + 1) % peers.length;
      return true;
    }
    return false;
  }

  /** Sends a message to a peer. Drops and counts it, and returns false, if the peer has gone or too many messages wait. */
  sendTo(identity: Uint8Array, frames: readonly Uint8Array[]): boolean {
    const isSent = this.#joined.get(keyOf(identity))?.send(zmtpParts(frames)) ?? false;
    if (!isSent) this.dropped++;
    return isSent;
  }

  /** Sends a message to every peer that has subscribed to a prefix of its first frame. Returns the number of such peers. */
  publish(frames: readonly Uint8Array[]): number {
    let parts: readonly Uint8Array[] | null = null;
    let wanting = 0;
    for (const peer of this.#joined.values()) {
      if (!peer.topics.wants(frames[0]!)) continue;
      wanting++;
      parts ??= zmtpParts(frames);
      if (!peer.send(parts)) this.dropped++;
    }
    return wanting;
  }

  /** Asks all publishers, also later ones, for messages whose first frame begins with the topic. */
  subscribe(topic: Uint8Array): void {
    if (!this.#wanted.add(topic)) throw new RangeError("too many topics");
    this.#tellAll(1, topic);
  }

  unsubscribe(topic: Uint8Array): void {
    this.#wanted.remove(topic);
    this.#tellAll(0, topic);
  }

  /**
   * Stops listening and connecting. Resolves when what waits has been sent, at the latest after `lingerMs`, when the rest is
   * dropped.
   */
  async close(lingerMs = 0): Promise<void> {
    this.#closed ??= Promise.withResolvers();
    for (const listener of this.#listeners.splice(0)) listener.stop(false);
    for (const cancel of this.#retries) cancel();
    this.#retries.clear();
    for (const peer of [...this.#peers.keys()]) peer.end();
    if (this.#peers.size === 0) return;
    const cutAll = () => {
      for (const peer of [...this.#peers.keys()]) peer.cut(null);
    };
    const cancel = this.options.timer.after(lingerMs * 1000, cutAll);
    await this.#closed.promise;
    cancel();
  }

  joined(peer: Peer): string | null {
    const identity = peer.identity ?? this.#newIdentity();
    const key = keyOf(identity);
    if (this.#joined.has(key)) return "another peer has the same identity";
    this.#handshakes.forget(peer);
    this.#joined.set(key, peer);
    this.#identities.set(peer, identity);
    const reconnection = this.#peers.get(peer);
    if (reconnection) reconnection.waitUs = RECONNECT_FIRST_US;
    for (const topic of this.#wanted) peer.send(subscription(1, topic));
    this.options.onJoin?.(identity);
    return null;
  }

  received(peer: Peer, frames: readonly Uint8Array[]): void {
    // A publisher that ignores topics must not get through.
    if (this.type === "SUB" && !this.#wanted.wants(frames[0]!)) return;
    this.options.onMessage?.(frames, this.#identities.get(peer)!);
  }

  left(peer: Peer, why: string | null): void {
    this.#handshakes.forget(peer);
    const reconnection = this.#peers.get(peer) ?? null;
    this.#peers.delete(peer);
    const identity = this.#identities.get(peer);
    if (identity !== undefined) {
      this.#identities.delete(peer);
      this.#joined.delete(keyOf(identity));
      this.options.onLeave?.(identity);
    }
    if (why !== null) this.options.log?.(`a ZeroMQ peer was closed: ${why}`);
    if (reconnection !== null) this.#dialLater(reconnection);
    if (this.#peers.size === 0) this.#closed?.resolve();
  }

  drained(): void {
    this.options.onDrain?.();
  }

  /** Makes an identity for a peer without one, as libzmq's ROUTER does: a zero and a number. */
  #newIdentity(): Buffer {
    const identity = Buffer.alloc(5);
    identity.writeUInt32BE(this.#made++ >>> 0, 1);
    return identity;
  }

  #tellAll(kind: 0 | 1, topic: Uint8Array): void {
    for (const peer of this.#joined.values()) peer.send(subscription(kind, topic));
  }

  #dial(reconnection: Reconnection): void {
    const { address } = reconnection;
    const socket = this.#handlers(reconnection);
    const data = { peer: null };
    const opening =
      "unix" in address ? Bun.connect({ ...address, socket, data }) : Bun.connect({ ...address, socket, data });
    opening.catch(() => this.#dialLater(reconnection));
  }

  #dialLater(reconnection: Reconnection): void {
    if (this.#closed !== null) return;
    const { waitUs } = reconnection;
    reconnection.waitUs = Math.min(RECONNECT_MOST_US, waitUs * 2);
    const cancel = this.options.timer.after(waitUs, () => {
      this.#retries.delete(cancel);
      this.#dial(reconnection);
    });
    this.#retries.add(cancel);
  }

  #handlers(reconnection: Reconnection | null): Bun.SocketHandler<{ peer: Peer | null }> {
    return {
      open: (socket: Connection) => {
        if (this.#peers.size >= PEERS_MOST || this.#closed !== null) {
          socket.terminate();
          if (reconnection !== null) this.#dialLater(reconnection);
          return;
        }
        const peer = new Peer(socket, this);
        socket.data = { peer };
        this.#peers.set(peer, reconnection);
        this.#handshakes.watch(peer);
        peer.greet();
      },
      data: (socket: Connection, bytes: Uint8Array) => socket.data?.peer?.data(bytes),
      drain: (socket: Connection) => socket.data?.peer?.drain(),
      close: (socket: Connection) => socket.data?.peer?.lost(),
      error: (socket: Connection, why: Error) => {
        logUnexpected("a connection of a ZeroMQ socket failed and is closed", why);
        socket.terminate();
      },
    };
  }
}

function parsed(endpoint: string): ZmtpAddress {
  const address = zmtpAddress(endpoint);
  if (address === null) throw new RangeError(`${endpoint} is no address; accepted: tcp://HOST:PORT, ipc://PATH`);
  return address;
}

/** Calls `listen`. Adds the address and the reason to its error. */
function listening<T>(endpoint: string, listen: () => T): T {
  try {
    return listen();
  } catch (error) {
    const { code } = error as { readonly code?: string };
    const why = code === "EADDRINUSE" ? "is in use" : `cannot be used (${code ?? (error as Error).message})`;
    throw Object.assign(new Error(`${endpoint} ${why}`), { code });
  }
}

const keyOf = (identity: Uint8Array): string => Buffer.from(identity).toString("latin1");

/** Returns a message that subscribes (1) or unsubscribes (0). All versions understand it. */
const subscription = (kind: 0 | 1, topic: Uint8Array): readonly Uint8Array[] =>
  zmtpParts([Buffer.concat([Buffer.from([kind]), topic])]);
