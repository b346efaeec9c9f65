/**
 * Publishes the batches of one rank over ZeroMQ: a PUB socket, and a ROUTER socket for replays. Source: `ZmqEventPublisher` in vLLM
 * 0.33.0 `vllm/distributed/kv_events.py`.
 */
import { lstatSync, rmSync } from "node:fs";
import { type ZmtpOptions, ZmtpSocket } from "../wire/zmtp/socket.ts";
import type { BatchReceiver } from "./assembler.ts";
import type { KvEventBatch } from "./batch.ts";
import { endpointOfRank, isBindEndpoint, type KvEventsConfig, type KvEventsSource } from "./config.ts";
import { KvEventsEncoder } from "./encode.ts";
import { KvEventFaults } from "./faults.ts";
import { FaultyOutlet } from "./faulty-outlet.ts";
import { type EncodedBatch, ReplayBuffer, type SendToClient, sequenceFrame } from "./replay.ts";

export interface PublisherOptions {
  readonly config: KvEventsConfig;
  readonly rank: number;
  readonly timer: ZmtpOptions["timer"];
  readonly log: (line: string) => void;
}

export class KvEventsPublisher implements BatchReceiver {
  /** The configuration with the addresses of this rank. */
  readonly source: KvEventsSource;
  /** Batches that were dropped before they were sent. Their sequences are left out. */
  droppedBatches = 0;
  readonly #topic: Buffer;
  readonly #encoder: KvEventsEncoder;
  readonly #pub: ZmtpSocket | null;
  readonly #router: ZmtpSocket | null;
  readonly #replay: ReplayBuffer;
  /** null: batches are sent as they are. */
  readonly #faulty: FaultyOutlet | null;
  #sequence = 0;

  /** Throws an `Error` that names the address if it cannot be used. */
  constructor({ config, rank, timer, log }: PublisherOptions) {
    const { source } = config;
    this.#encoder = new KvEventsEncoder(config.profile);
    this.#topic = Buffer.from(source.topic);
    const shared = { timer, log };
    const endpoint = endpointOfRank(source.endpoint, rank)!;
    const replayEndpoint = source.replay_endpoint === null ? null : endpointOfRank(source.replay_endpoint, rank)!;
    this.#pub = isInproc(endpoint) ? null : new ZmtpSocket("PUB", { ...shared, highWaterMark: source.hwm });
    const router: ZmtpSocket | null =
      replayEndpoint === null || isInproc(replayEndpoint)
        ? null
        : new ZmtpSocket("ROUTER", {
            ...shared,
            highWaterMark: 2 * (source.buffer_steps + 1),
            onMessage: (frames, peer) => {
              if (!this.#replay.requested(peer, frames))
                log(`an invalid replay request of ${frames.length + 1} frames`);
            },
            onLeave: (peer) => this.#replay.left(peer),
            onDrain: () => this.#replay.drained(),
          });
    this.#router = router;
    this.#faulty =
      config.faults === null
        ? null
        : new FaultyOutlet(new KvEventFaults(config.faults, rank), timer, {
            send: (encoded) => this.#send(encoded),
            keep: ({ sequence, payload }) => this.#replay.keep(sequence, payload),
            clearKept: () => this.#replay.clear(),
          });
    const send: SendToClient = (identity, frames) => router?.sendTo(identity, frames) ?? false;
    this.#replay = new ReplayBuffer(source.buffer_steps, this.#topic, this.#faulty?.replaySender(send) ?? send);
    let bound = endpoint;
    try {
      if (this.#pub !== null) {
        if (isBindEndpoint(endpoint)) bound = boundTo(this.#pub, endpoint);
        else this.#pub.connect(endpoint);
      }
      this.source = {
        ...source,
        endpoint: bound,
        replay_endpoint: router === null ? replayEndpoint : boundTo(router, replayEndpoint!),
      };
    } catch (error) {
      void this.close();
      throw error;
    }
  }

  publish(batch: KvEventBatch): void {
    const sequence = this.#sequence++;
    const payload = this.#encoder.encode(batch);
    if (this.#faulty !== null) {
      this.#faulty.publish(sequence, payload);
      return;
    }
    this.#send({ sequence, payload });
    this.#replay.keep(sequence, payload);
  }

  dropped(batches: number): void {
    this.droppedBatches += batches;
    this.#sequence += batches;
  }

  /** Messages that subscribers did not get because too many waited for them. */
  get droppedMessages(): number {
    return this.#pub?.dropped ?? 0;
  }

  /** Resolves when everything has been sent, at the latest after `lingerMs`. */
  async close(lingerMs = 0): Promise<void> {
    this.#faulty?.close();
    await Promise.all([this.#pub?.close(lingerMs), this.#router?.close(lingerMs)]);
  }

  #send({ sequence, payload }: EncodedBatch): void {
    this.#pub?.publish([this.#topic, sequenceFrame(sequence), payload]);
  }
}

const isInproc = (endpoint: string): boolean => endpoint.startsWith("inproc://");

/** Binds the socket. Returns its address, with the port if the system chose it. */
function boundTo(socket: ZmtpSocket, endpoint: string): string {
  if (endpoint.startsWith("ipc://")) removeSocket(endpoint.slice("ipc://".length));
  const bound = socket.bind(endpoint.replace("tcp://*:0", "tcp://0.0.0.0:0"));
  return endpoint.endsWith(":0") || endpoint.endsWith(":*") ? bound : endpoint;
}

/** Removes the file of a socket that an earlier process left, as libzmq does. */
function removeSocket(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) rmSync(path, { force: true });
}
