/** Subscribes to a publisher of KV events over ZeroMQ, asks for replays, and passes everything to a checker. */
import type { Clock } from "../../base/clock.ts";
import { isBindEndpoint } from "../../kv-events/config.ts";
import { pacing } from "../../wire/http/deadlines.ts";
import { zmtpAddress } from "../../wire/zmtp/endpoint.ts";
import { type ZmtpOptions, ZmtpSocket } from "../../wire/zmtp/socket.ts";
import { fetchPage } from "../check/fetch.ts";
import { KvChecker, type KvCheckOptions, type KvReport } from "./checker.ts";

export interface KvWatchOptions extends Omit<KvCheckOptions, "onReplayWanted"> {
  /** Address of the PUB socket. We bind, as a collector does, if it contains `*` or `::`. */
  readonly endpoint: string;
  /** Address of the ROUTER socket for replays. null: none. */
  readonly replayEndpoint: string | null;
  /** Address of the engine's metrics page. null: none. */
  readonly metricsUrl: string | null;
  /** Beginning of the topics to subscribe to. */
  readonly topic: string;
  /** Returns the microseconds since 1970 at a time of the clock. */
  readonly epochUsOf: (us: number) => number;
  /** Longest wait for the publisher, and for a metrics page, in seconds. */
  readonly timeoutS: number;
  /** Seconds to check after the publisher has joined. null: until `stopped`. */
  readonly forS: number | null;
  /** Batches to check. null: any number. */
  readonly batches: number | null;
  /** Returns true if the check must end. */
  readonly stopped: () => boolean;
  /** Called several times a second. */
  readonly onProgress: (batches: number) => void;
}

const LOOK_US = 100_000;
/** Wait for the end of a replay, after its last message. */
const REPLAY_US = 5_000_000;
/** Wait for batches before a later one that has arrived. */
const STRAGGLER_US = 1_000_000;
/** Wait for the last events before the last metrics page, and after it. */
const REST_US = 500_000;
const PAGE_BYTES_MOST = 16 * 2 ** 20;
/** Messages that wait in a socket of ours. */
const HIGH_WATER_MARK = 100_000;
const END = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);

export class KvWatch {
  readonly #clock: Clock;
  readonly #options: KvWatchOptions;
  readonly #checker: KvChecker;
  readonly #sub: ZmtpSocket;
  readonly #dealer: ZmtpSocket | null;
  /** Topics whose replays were requested, with the start. The first one is under way. */
  readonly #replays: { readonly topic: string; readonly start: number }[] = [];
  #replayDueUs = 0;
  #lastUs = 0;
  #hasJoined = false;
  /** Reason why the last connection was closed. "": none was. */
  #closedWhy = "";
  #replayClosedWhy = "the port is closed";

  constructor(clock: Clock, options: KvWatchOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#checker = new KvChecker({
      ...options,
      ...(options.replayEndpoint === null ? {} : { onReplayWanted: (topic, start) => this.#request(topic, start) }),
    });
    const shared: ZmtpOptions = { timer: pacing(clock), highWaterMark: HIGH_WATER_MARK };
    this.#sub = new ZmtpSocket("SUB", {
      ...shared,
      log: (line) => {
        this.#closedWhy = reasonIn(line);
      },
      onJoin: (peer) => {
        this.#hasJoined = true;
        this.#checker.joined(nameOf(peer));
      },
      onLeave: (peer) => this.#checker.left(nameOf(peer)),
      onMessage: (frames, peer) => {
        this.#lastUs = clock.now();
        this.#checker.message(frames, options.epochUsOf(this.#lastUs) / 1e6, nameOf(peer));
      },
    });
    this.#dealer =
      options.replayEndpoint === null
        ? null
        : new ZmtpSocket("DEALER", {
            ...shared,
            log: (line) => {
              this.#replayClosedWhy = reasonIn(line);
            },
            onJoin: () => this.#sendRequest(),
            onMessage: (frames) => this.#replayMessage(frames),
          });
  }

  /** The result so far. */
  get report(): KvReport {
    return this.#checker.report();
  }

  /** Checks until the time is over. Never rejects for anything that a publisher does. */
  async run(): Promise<KvReport> {
    const { endpoint, replayEndpoint, topic, forS, batches, stopped, onProgress } = this.#options;
    try {
      await this.#page();
      this.#sub.subscribe(Buffer.from(topic));
      if (isBindEndpoint(endpoint) && !endpoint.startsWith("ipc://")) this.#sub.bind(endpoint);
      else this.#sub.connect(endpoint);
      if (replayEndpoint !== null) this.#dealer!.connect(replayEndpoint);
    } catch (error) {
      return this.#end((error as Error).message);
    }
    if (!(await this.#join())) return this.#end(this.#whyNotJoined());
    const endUs = forS === null ? Number.POSITIVE_INFINITY : this.#clock.now() + forS * 1e6;
    const isEnough = () => batches !== null && this.#checker.messages >= batches;
    await this.#until(endUs, () => {
      onProgress(this.#checker.messages);
      this.#look();
      return stopped() || isEnough();
    });
    if (this.#options.metricsUrl !== null) {
      await this.#quiet();
      await this.#page();
    }
    return this.#end(this.#checker.messages === 0 ? "no batch of events arrived" : null);
  }

  async #end(why: string | null): Promise<KvReport> {
    if (why !== null) this.#checker.unreachable(why, this.#options.epochUsOf(this.#clock.now()) / 1e6);
    const report = this.#checker.report();
    await Promise.all([this.#sub.close(), this.#dealer?.close()]);
    return report;
  }

  /** Waits for a publisher. Returns false if none comes, or if something else than ZeroMQ answers. */
  async #join(): Promise<boolean> {
    const { timeoutS, stopped } = this.#options;
    const isOver = () => this.#hasJoined || this.#closedWhy !== "" || stopped();
    await this.#until(this.#clock.now() + timeoutS * 1e6, isOver);
    return this.#hasJoined;
  }

  #whyNotJoined(): string {
    if (this.#closedWhy !== "") return `no ZeroMQ publisher answers: ${this.#closedWhy}`;
    return `no ZeroMQ publisher answered within ${this.#options.timeoutS} s: the port is closed, or something else listens there`;
  }

  /** Gives up waiting for batches and replays that do not come. */
  #look(): void {
    const nowUs = this.#clock.now();
    if (this.#replays.length > 0 && nowUs > this.#replayDueUs) {
      const { topic } = this.#replays.shift()!;
      if (this.#dealer!.peers.length > 0) this.#checker.replayEnded(topic, "the replay has no end marker after 5 s");
      else
        this.#checker.replayAbandoned(topic, `no replay at ${this.#options.replayEndpoint}: ${this.#replayClosedWhy}`);
      this.#sendRequest();
    }
    if (nowUs - this.#lastUs > STRAGGLER_US) this.#checker.expire();
  }

  #request(topic: string, start: number): void {
    this.#replays.push({ topic, start });
    if (this.#replays.length === 1) this.#sendRequest();
  }

  /** Sends the first request that waits. It is sent again after a new connection. */
  #sendRequest(): void {
    const [first] = this.#replays;
    if (first === undefined) return;
    this.#replayDueUs = this.#clock.now() + REPLAY_US;
    const start = Buffer.alloc(8);
    start.writeBigUInt64BE(BigInt(first.start));
    this.#dealer!.send([EMPTY, start]);
  }

  #replayMessage([, ...frames]: readonly Uint8Array[]): void {
    const [first] = this.#replays;
    if (first === undefined) return;
    this.#replayDueUs = this.#clock.now() + REPLAY_US;
    if (frames[1] !== undefined && END.equals(frames[1])) {
      this.#replays.shift();
      this.#checker.replayEnded(first.topic);
      this.#sendRequest();
    } else if (frames[0] === undefined || Buffer.from(frames[0]).toString() === first.topic)
      this.#checker.replayed(first.topic, frames);
  }

  /** Waits until no event has arrived for a while. */
  async #quiet(): Promise<void> {
    const isQuiet = () => this.#clock.now() - this.#lastUs > REST_US;
    await this.#until(this.#clock.now() + this.#options.timeoutS * 1e6, isQuiet);
  }

  async #page(): Promise<void> {
    const { metricsUrl, timeoutS } = this.#options;
    if (metricsUrl === null) return;
    const page = await fetchPage(metricsUrl, this.#clock, { timeoutS, maxBytes: PAGE_BYTES_MOST, accept: "*/*" });
    if ("why" in page) this.#checker.noPage(page.why);
    else this.#checker.page(page.bytes, page.contentType);
  }

  /** Waits for the time, or until `isOver` returns true. */
  #until(dueUs: number, isOver: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => {
      const nowUs = this.#clock.now();
      if (isOver() || nowUs >= dueUs) resolve();
      else this.#clock.at(Math.min(dueUs, nowUs + LOOK_US), look);
    };
    look();
    return promise;
  }
}

const reasonIn = (line: string): string => line.replace("a ZeroMQ peer was closed: ", "");
const nameOf = (peer: Uint8Array): string => Buffer.from(peer).toString("latin1");

/** Reports whether a text is an address of ZeroMQ that we can use. */
export const isKvEndpoint = (text: string): boolean => zmtpAddress(text) !== null;
