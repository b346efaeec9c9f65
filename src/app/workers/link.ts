/** The worker's side of the channel to its parent process. */
import type { EngineControl } from "../../kernel/engine-control.ts";
import type { FromWorker, ToWorker, WorkerCommand, WorkerSetup } from "./messages.ts";

export interface Tasks {
  readonly start: (setup: WorkerSetup) => Promise<void>;
  readonly end: (graceS: number) => Promise<void>;
  /** Called when the parent process has exited. */
  readonly orphaned: () => Promise<void>;
}

export class Link {
  readonly #waiting = new Map<number, (answer: boolean) => void>();
  #own: EngineControl | null = null;
  #asked = 0;

  /** Starts to handle messages. Calls `orphaned` at once if the process has no channel to a parent. */
  constructor(tasks: Tasks) {
    process.on("message", (message: ToWorker) => {
      if ("start" in message) void tasks.start(message.start);
      else if ("end" in message) void tasks.end(message.end);
      else if ("order" in message) void this.#do(message.order, message.command);
      else {
        this.#waiting.get(message.done)?.(message.answer);
        this.#waiting.delete(message.done);
      }
    });
    process.on("disconnect", () => void tasks.orphaned());
    if (!process.connected) queueMicrotask(() => void tasks.orphaned());
  }

  /** Sends a message. Resolves once it is sent, or at once if the parent has exited. */
  say(message: FromWorker): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (process.connected) process.send!(message, () => resolve());
    else resolve();
    return promise;
  }

  /** Returns a control that acts on the engines of all workers. `own`: control of this worker's engines. */
  control(own: EngineControl): EngineControl {
    this.#own = own;
    return {
      pause: (mode, clearCache) => this.#ask({ name: "pause", mode, clearCache }),
      resume: () => this.#ask({ name: "resume" }),
      get paused() {
        return own.paused;
      },
      sleeps: (sleep, asleep) => this.#ask({ name: "sleeps", sleep, asleep }),
      get asleep() {
        return own.asleep;
      },
      resetPrefixCache: (running) => this.#ask({ name: "resetPrefixCache", running }),
    };
  }

  #ask(command: WorkerCommand): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const ask = ++this.#asked;
    this.#waiting.set(ask, resolve);
    void this.say({ ask, command });
    return promise;
  }

  async #do(order: number, command: WorkerCommand): Promise<void> {
    const answer = await this.#act(command);
    await this.say({ did: order, answer });
  }

  async #act(command: WorkerCommand): Promise<boolean> {
    if (this.#own === null) return true;
    if (command.name === "resetPrefixCache") return this.#own.resetPrefixCache(command.running);
    if (command.name === "sleeps") this.#own.sleeps(command.sleep, command.asleep);
    else if (command.name === "pause") await this.#own.pause(command.mode, command.clearCache);
    else this.#own.resume();
    return true;
  }
}
