/** Carries out the operations of a fault pipeline on a connection: one write per segment, waits, and the end. Records them. */
import type { ConnectionEffect, WireOperation } from "../../faults/plan/types.ts";
import type { Timer } from "../http/deadlines.ts";
import type { DisturbedAnswer } from "../http/sink.ts";
import type { DrainListener } from "./stream.ts";

/** Time between two segments, so that no layer joins them. */
const GAP_US = 200;
/** Waiting bytes above which the answer's owner is asked to pause. */
const WAITING_MOST = 4 * 2 ** 20;
/** Operations recorded per answer. */
const RECORDED_MOST = 1000;

/** The connection, as the player sees it. */
export interface FaultyOutput {
  /** Like `send` of `Output`. */
  send(bytes: Uint8Array, length: number, then: DrainListener | null): number;
  /** Completes the answer. `stays`: true if the connection may be used again. */
  leave(stays: boolean, after: ConnectionEffect): void;
  /** Resets the connection. */
  cut(): void;
  /** Further operations of HTTP/2. Absent for HTTP/1. */
  readonly frames?: {
    /** Sends bytes of a head, or of a part of operation. */
    head(bytes: Uint8Array): void;
    goAway(code: number, unserved: boolean): void;
    /** Resets the answer's stream. */
    reset(code: number): void;
  };
}

export interface PlayerOwner {
  /** Called once, when everything is sent or the client has left. */
  ended(how: DisturbedAnswer["end"]): void;
  /** Called when the owner may write again. */
  hasRoom(): void;
  /** Counts waiting bytes. Negative: that many no longer wait. */
  waits(bytes: number): void;
  /** Called with the bytes that leave. The receiver may keep them. */
  sent?: ((bytes: Uint8Array) => void) | undefined;
  /** True if operations are recorded. */
  readonly keeps: boolean;
}

export class WirePlayer implements DrainListener {
  readonly #beganUs: number;
  #over = false;
  readonly #queue: WireOperation[] = [];
  /** Bytes of all operations so far. */
  played = 0;
  /** Bytes in the queue. `#left`: bytes that the socket has not accepted. */
  #queued = 0;
  #left = 0;
  #full = false;
  /** Time before which no operation runs. `#noBytesBeforeUs`: time before which no bytes are sent. */
  #notBeforeUs = 0;
  #noBytesBeforeUs = 0;
  #cancelWake: (() => void) | null = null;
  #offset = 0;
  readonly #done: DisturbedAnswer["operations"][number][] = [];
  #unrecorded = 0;

  constructor(
    private readonly output: FaultyOutput,
    private readonly timer: Required<Timer>,
    private readonly owner: PlayerOwner,
  ) {
    this.#beganUs = timer.nowUs();
  }

  get full(): boolean {
    return this.#full;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Bytes that wait in the queue. */
  get queued(): number {
    return this.#queued;
  }

  /** The operations that were carried out. */
  get record(): Pick<DisturbedAnswer, "beganUs" | "operations" | "unkept"> {
    return { beganUs: this.#beganUs, operations: this.#done, unkept: this.#unrecorded };
  }

  play(operations: readonly WireOperation[]): void {
    if (this.#over) return;
    for (const operation of operations) {
      this.#queue.push(operation);
      if (operation.kind !== "bytes") continue;
      this.played += operation.bytes.length;
      this.#count(operation.bytes.length);
    }
    if (this.#cancelWake === null) this.#run();
    this.#full = this.#isFull;
  }

  /** Sends an event that is one segment. The caller may reuse the bytes afterwards. */
  pass(bytes: Uint8Array, length: number): void {
    const nowUs = this.timer.nowUs();
    const waits = this.#over || this.#left > 0 || this.#queue.length > 0;
    if (waits || this.owner.sent || nowUs < Math.max(this.#notBeforeUs, this.#noBytesBeforeUs)) {
      this.play([{ kind: "bytes", bytes: new Uint8Array(bytes.subarray(0, length)), event: 0, pace: null }]);
      return;
    }
    this.#noBytesBeforeUs = nowUs + GAP_US;
    this.#left = this.output.send(bytes, length, this);
    this.#sent(length, nowUs);
    this.#full = this.#isFull;
  }

  /** Stops all operations. */
  stop(how: DisturbedAnswer["end"]): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelWake?.();
    this.#count(-this.#queued);
    this.owner.waits(-this.#left);
    this.#left = 0;
    this.#queue.length = 0;
    this.owner.ended(how);
  }

  drained(): void {
    this.owner.waits(-this.#left);
    this.#left = 0;
    this.#run();
    this.#reportRoom();
  }

  get #isFull(): boolean {
    return this.#left > 0 || this.#queued > WAITING_MOST;
  }

  /** Calls the owner back if it was asked to pause and there is room again. */
  #reportRoom(): void {
    if (!this.#full || this.#over || this.#isFull) return;
    this.#full = false;
    this.owner.hasRoom();
  }

  #run(): void {
    while (!this.#over && this.#left === 0 && this.#queue.length > 0) {
      const nowUs = this.timer.nowUs();
      const first = this.#queue[0]!;
      if (first.kind === "wait") {
        this.#queue.shift();
        this.#notBeforeUs = Math.max(nowUs, this.#notBeforeUs) + first.us;
        this.#record(nowUs, "wait", first.us, 0);
        continue;
      }
      if (first.kind === "goaway") {
        this.#queue.shift();
        this.#record(nowUs, "goaway", first.code, 0);
        this.output.frames?.goAway(first.code, first.unserved);
        continue;
      }
      const dueUs = first.kind === "end" ? this.#notBeforeUs : Math.max(this.#notBeforeUs, this.#noBytesBeforeUs);
      if (nowUs < dueUs) {
        this.#wake(dueUs - nowUs);
        return;
      }
      if (first.kind === "bytes") this.#next(first, nowUs);
      else this.#finish(first, nowUs);
    }
  }

  /** Sends the segment, or the part of it that its pace allows. */
  #next({ bytes, event, pace }: Extract<WireOperation, { kind: "bytes" }>, nowUs: number): void {
    const length = Math.min(bytes.length, pace?.bytes ?? bytes.length);
    if (length === bytes.length) this.#queue.shift();
    else this.#queue[0] = { kind: "bytes", bytes: bytes.subarray(length), event, pace };
    this.#send(bytes.subarray(0, length), event, nowUs);
    this.#noBytesBeforeUs = nowUs + Math.max(GAP_US, pace?.gapUs ?? 0);
  }

  #send(bytes: Uint8Array, event: number, nowUs: number): void {
    const { frames } = this.output;
    this.#count(-bytes.length);
    if (event < 0 && frames) frames.head(bytes);
    else this.#left = this.output.send(bytes, bytes.length, this);
    this.owner.sent?.(bytes);
    this.#sent(bytes.length, nowUs);
  }

  #sent(length: number, nowUs: number): void {
    this.#record(nowUs, "bytes", length, length - this.#left);
    this.#offset += length;
    if (this.#left === 0) return;
    this.owner.waits(this.#left);
    this.#full = true;
  }

  #finish({ how, code, after }: Extract<WireOperation, { kind: "end" }>, nowUs: number): void {
    this.#record(nowUs, how, 0, 0);
    this.stop(how);
    if (how === "rst") this.output.cut();
    else if (how === "reset") this.output.frames?.reset(code!);
    else this.output.leave(how === "done", after);
  }

  #wake(us: number): void {
    if (this.#cancelWake !== null) return;
    this.#cancelWake = this.timer.after(us, () => {
      this.#cancelWake = null;
      this.#run();
      this.#reportRoom();
    });
  }

  #count(bytes: number): void {
    this.#queued += bytes;
    if (bytes !== 0) this.owner.waits(bytes);
  }

  #record(nowUs: number, kind: string, length: number, taken: number): void {
    if (!this.owner.keeps) return;
    if (this.#done.length === RECORDED_MOST) this.#unrecorded++;
    else this.#done.push([nowUs, kind, this.#offset, length, taken]);
  }
}
