/** How does an answer leave that a plan disturbs? Its events go through the pipeline; a player does what that says. */
import { FaultPipeline } from "../../faults/pipeline.ts";
import { headIn } from "../../faults/stages/heads.ts";
import type { Timer } from "../deadlines.ts";
import type { DisturbedAnswer, EventSink, FaultWitness, HeldBytes, SinkEvents } from "../sink.ts";
import type { Drained } from "./stream.ts";
import { type FaultyOutput, WirePlayer } from "./wire-player.ts";

export { FaultPipeline };

const NOBODY: SinkEvents = { onDrain() {}, onGone() {} };

export class FaultyStream implements EventSink, Drained {
  readonly #pipeline: FaultPipeline;
  readonly #player: WirePlayer;
  readonly #witness: FaultWitness;
  #owner = NOBODY;
  #waiting: HeldBytes | null = null;
  #early: string[] = [];
  #endsEarly: "end" | "reset" | null = null;
  #begun = false;
  /** The owner writes no more. */
  #complete = false;

  constructor(pipeline: FaultPipeline, output: FaultyOutput, timer: Required<Timer>, witness: FaultWitness) {
    this.#pipeline = pipeline;
    this.#witness = witness;
    this.#player = new WirePlayer(output, timer, {
      ended: (how) => this.#ended(how),
      relieved: () => {
        if (!this.#complete) this.#owner.onDrain();
      },
      waits: (bytes) => {
        if (bytes !== 0) this.#waiting?.held(bytes);
      },
      sent: witness.sent && ((bytes) => witness.sent!(bytes)),
    });
  }

  /** The request's answer is a stream. */
  open(owner: SinkEvents, waiting: HeldBytes | null): this {
    this.#owner = owner;
    this.#waiting = waiting;
    return this;
  }

  get full(): boolean {
    return this.#begun ? this.#player.full : this.#early.length > 0;
  }

  write(event: string): boolean {
    if (!this.#begun) this.#early.push(event);
    else if (!this.#complete && !this.#player.over) {
      this.#player.play(this.#pipeline.write(event));
      if (this.#pipeline.stopped !== null && !this.#complete) this.#stop();
    }
    return !this.full;
  }

  /** The events said that nothing follows. */
  #stop(): void {
    this.#complete = true;
    if (this.#pipeline.stopped === "error" && this.#owner.onFailed) this.#owner.onFailed();
    else this.#owner.onGone();
    this.#player.play(this.#pipeline.end());
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    return this.write(Buffer.concat([before, piece, after]).toString());
  }

  end(): void {
    if (!this.#begun) this.#endsEarly ??= "end";
    else if (!this.#complete) {
      this.#complete = true;
      this.#player.play(this.#pipeline.end());
    }
  }

  reset(): void {
    if (!this.#begun) this.#endsEarly ??= "reset";
    else if (!this.#complete) {
      this.#complete = true;
      this.#player.play([{ kind: "end", how: "fin", after: { next: null, refused: 0 } }]);
    }
  }

  /** For the exchange, as all below: the stream's head. */
  begin(head: string): void {
    this.#begun = true;
    this.#player.play(this.#pipeline.begin(headIn(head)));
    const waited = this.#early;
    this.#early = [];
    for (const event of waited) this.write(event);
    if (this.#endsEarly === "end") this.end();
    else if (this.#endsEarly === "reset") this.reset();
    else if (waited.length > 0 && !this.#player.full && !this.#player.over) this.#owner.onDrain();
  }

  /** Nothing of it waits in a lane. */
  shut(): void {}

  /** An answer in one piece. */
  answer(head: string, body: string | Uint8Array | null): void {
    this.#begun = true;
    this.#complete = true;
    this.#player.play(
      this.#pipeline.whole(headIn(head), typeof body === "string" ? Buffer.from(body) : (body ?? new Uint8Array())),
    );
  }

  /** The answer leaves as it is. */
  spare(): void {
    this.#complete = true;
    this.#player.stop("done");
  }

  drained(): void {
    this.#player.drained();
  }

  /** The client left, or was left. */
  gone(): void {
    this.#player.stop("gone");
  }

  #ended(end: DisturbedAnswer["end"]): void {
    if (!this.#complete) this.#owner.onGone();
    const { line } = this.#pipeline;
    this.#witness.told({ line, end, ...this.#player.record, account: this.#pipeline.account() });
  }
}
