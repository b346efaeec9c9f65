/** Disturbs the messages of an engine to its front end by a plan. The same plan and seed disturb the same occasions. */
import { type Random, seeded } from "../../../base/random.ts";
import { type EngineCoreOutput, type EngineCoreOutputs, PLAIN_OUTPUT } from "../messages/outputs.ts";
import type { SchedulerStats } from "../messages/stats.ts";
import { type FrontFault, type FrontFaultName, kindOf } from "./front-faults.ts";

/** The connection to the front end, with all that a fault can do to it. */
export interface DisturbedFront {
  message(client: number, message: EngineCoreOutputs): void;
  /** Sends a message that is not one of vLLM's. */
  broken(client: number, frame: Uint8Array): void;
  /** Leaves the front end. `isDead`: says before that the engine has failed. */
  leave(isDead: boolean): void;
}

/** Separates these draws from others of the same seed. */
const SALT = 0x2545f491;
const DRAW_RANGE = 2 ** 32;
/** A byte that MessagePack never uses. */
const BROKEN = Buffer.from([0xc1]);
/** The list of a message with null as its first element. */
const WRONG = Buffer.from([0x91, 0xc0]);

/** Counts the occasions of each fault of a plan. */
class Occasions {
  readonly #counts: number[];

  constructor(
    readonly faults: readonly FrontFault[],
    private readonly draw: Random,
  ) {
    this.#counts = faults.map(() => 0);
  }

  /** Counts an occasion. Returns true if a fault with this name occurs at it. */
  occurs(name: FrontFaultName): boolean {
    let occurs = false;
    for (const [index, fault] of this.faults.entries()) {
      if (fault.name !== name) continue;
      const count = ++this.#counts[index]!;
      const isDue = fault.at === null || fault.at === count || (kindOf(name).stays === true && count > fault.at);
      if (isDue && (fault.value === 1 || this.draw() / DRAW_RANGE < fault.value)) occurs = true;
    }
    return occurs;
  }
}

export class FrontDisturber {
  readonly #occasions: Occasions;
  readonly #draw: Random;
  /** Plans that requests have ordered for themselves, by id. */
  readonly #ordered = new Map<string, Occasions>();
  /** Outputs that wait for the next one of their requests, by id. */
  readonly #swapped = new Map<string, EngineCoreOutput>();
  #frozen: SchedulerStats | null = null;
  #hasLeft = false;

  constructor(
    faults: readonly FrontFault[],
    seed: number,
    rank: number,
    private readonly front: DisturbedFront,
  ) {
    this.#draw = seeded(seed ^ SALT ^ rank);
    this.#occasions = new Occasions(faults, this.#draw);
  }

  /** Notes the faults that a request has ordered for its own outputs. */
  order(id: string, faults: readonly FrontFault[]): void {
    this.#ordered.set(id, new Occasions(faults, this.#draw));
  }

  /** Forgets a request that gets no more outputs. */
  forget(id: string): void {
    this.#ordered.delete(id);
    this.#swapped.delete(id);
  }

  /** Sends a message to a process of the front end, with the faults that occur at it. */
  send(client: number, message: EngineCoreOutputs): void {
    if (this.#hasLeft) return;
    if (message.utility_output !== null) this.#sendAnswer(client, message);
    else if (message.outputs.length === 0)
      this.front.message(client, { ...message, scheduler_stats: this.#stats(message.scheduler_stats) });
    else this.#sendStep(client, message);
  }

  #sendAnswer(client: number, message: EngineCoreOutputs): void {
    const { utility_output: answer } = message;
    if (this.#occasions.occurs("utility-unanswered")) return;
    const isWrong = this.#occasions.occurs("utility-unknown-id");
    const call_id = isWrong ? (BigInt(answer!.call_id) ^ 1n) + 4096n : answer!.call_id;
    this.front.message(client, { ...message, utility_output: { ...answer!, call_id } });
  }

  #sendStep(client: number, message: EngineCoreOutputs): void {
    const isDead = this.#occursAt(message, "engine-dead");
    if (isDead || this.#occursAt(message, "engine-gone")) {
      this.#hasLeft = true;
      this.front.leave(isDead);
      return;
    }
    for (const [name, frame] of [["message-broken", BROKEN] as const, ["message-wrong", WRONG] as const])
      if (this.#occursAt(message, name)) {
        this.front.broken(client, frame);
        return;
      }
    const outputs: EngineCoreOutput[] = [];
    const after: EngineCoreOutput[] = [];
    for (const output of message.outputs) this.#disturb(output, outputs, after);
    this.front.message(client, { ...message, outputs, scheduler_stats: this.#stats(message.scheduler_stats) });
    for (const output of after)
      this.front.message(client, { ...message, outputs: [output], scheduler_stats: null, finished_requests: null });
  }

  /** Puts what becomes of an output into the message of its step, or into messages after it. */
  #disturb(output: EngineCoreOutput, sent: EngineCoreOutput[], after: EngineCoreOutput[]): void {
    const { request_id: id, finish_reason, new_token_ids } = output;
    const occurs = (name: FrontFaultName) => this.#occursIn(output, name);
    const waiting = this.#swapped.get(id);
    if (waiting !== undefined) {
      this.#swapped.delete(id);
      after.push(waiting);
    } else if (finish_reason === null && occurs("outputs-swapped")) {
      this.#swapped.set(id, output);
      return;
    }
    if (!occurs("output-lost")) sent.push(output);
    if (occurs("output-twice")) after.push(output);
    if (finish_reason === null) return;
    if (occurs("output-after-finish"))
      after.push({ ...PLAIN_OUTPUT, request_id: id, new_token_ids: new_token_ids.slice(-1) });
    this.forget(id);
  }

  /** Reports whether a fault occurs at a message, by the plan or by the order of a request in it. */
  #occursAt({ outputs }: EngineCoreOutputs, name: FrontFaultName): boolean {
    let occurs = this.#occasions.occurs(name);
    for (const { request_id } of outputs) if (this.#ordered.get(request_id)?.occurs(name)) occurs = true;
    return occurs;
  }

  #occursIn({ request_id }: EngineCoreOutput, name: FrontFaultName): boolean {
    const isPlanned = this.#occasions.occurs(name);
    return this.#ordered.get(request_id)?.occurs(name) || isPlanned;
  }

  #stats(stats: SchedulerStats | null): SchedulerStats | null {
    if (stats === null || this.#occasions.occurs("stats-absent")) return null;
    if (this.#occasions.occurs("stats-frozen")) this.#frozen ??= stats;
    const shown = this.#frozen ?? stats;
    if (!this.#occasions.occurs("stats-impossible")) return shown;
    return { ...shown, num_running_reqs: 1e9, kv_cache_usage: 7.5 };
  }
}
