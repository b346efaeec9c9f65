/**
 * Supervises the workers in the parent process: starts them on one port, restarts workers that die, passes commands of one
 * worker to all, and ends when they have ended. It serves no requests itself.
 */
import type { Subprocess } from "bun";
import type { Clock } from "../../base/clock.ts";
import type { FromWorker, ToWorker, WorkerCommand, WorkerSetup } from "./messages.ts";
import { Restarts } from "./restarts.ts";

/** Time for a shutdown in addition to the grace time of requests, in microseconds. Then the worker is killed. */
const END_US = 10_000_000;
/** Exit code of a worker whose core trapped. The server then ends, so that a restart does not hide the defect. */
const CORE_TRAPPED = 70;
const GAVE_UP = 1;

type Child = Subprocess<"ignore", "inherit", "inherit">;

export interface SupervisorOptions {
  readonly workers: number;
  readonly clock: Clock;
  /** Command line of a worker's process. The supervisor adds the worker's number. */
  readonly command: readonly string[];
  readonly setup: (index: number, paused: boolean) => WorkerSetup;
  /** Prints one line for the user. */
  readonly say: (line: string) => void;
  /** Called when a worker's process has ended. Returns a text about lost requests, "" if none were lost. */
  readonly retire: (index: number, how: Death) => string;
}

/** The end of a process: its exit code or its signal. */
export interface Death {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** True if the process shut down, on request or by itself. */
  readonly orderly: boolean;
}

/** Thrown if the workers cannot start, with one line for the user. `code`: code of the system's error. */
export class StartRefused extends Error {
  constructor(
    message: string,
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

class Place {
  child: Child | null = null;
  listening = false;
  listeningUs = 0;
  refused: string | null = null;
  /** Requests that were open at the start of its shutdown; null before it has ended. */
  ended: number | null = null;
  readonly restarts = new Restarts();
  constructor(readonly index: number) {}
}

/** A command that was sent to a worker and that the worker has not answered. */
interface Order {
  readonly child: Child;
  /** Resolves the promise of the sender. */
  readonly done: (answer: boolean) => void;
}

export class Supervisor {
  /** Resolves with the exit code once all workers have ended for good. */
  readonly exited: Promise<number>;
  readonly #places: readonly Place[];
  readonly #orders = new Map<number, Order>();
  readonly #ready = Promise.withResolvers<string>();
  readonly #exit: (code: number) => void;
  #lastOrder = 0;
  #paused = false;
  #sleeps: WorkerCommand = { name: "sleeps", sleep: 0, asleep: [] };
  #isReady = false;
  /** Exit code, set when the shutdown starts; null before. */
  #ending: number | null = null;
  #open = 0;

  constructor(private readonly options: SupervisorOptions) {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.exited = promise;
    this.#exit = resolve;
    this.#places = Array.from({ length: options.workers }, (_, index) => new Place(index));
  }

  /** Process ids by number of the worker; null: the worker is not running. */
  get pids(): readonly (number | null)[] {
    return this.#places.map(({ child }) => child?.pid ?? null);
  }

  /** Number of requests that were open at the shutdown, over all workers. */
  get open(): number {
    return this.#open;
  }

  /** Starts the workers. Resolves with the URL once all listen. Rejects with StartRefused after all have ended. */
  async start(): Promise<string> {
    for (const place of this.#places) this.#spawn(place);
    try {
      const url = await this.#ready.promise;
      this.#isReady = true;
      return url;
    } catch (reason) {
      this.#ending ??= GAVE_UP;
      this.kill();
      if (this.#places.some(({ child }) => child)) await this.exited;
      throw reason;
    }
  }

  /** Shuts down all workers; `exited` then resolves with `code`. */
  end(graceS: number, code = 0): void {
    if (this.#ending !== null) return;
    this.#ending = code;
    const { clock } = this.options;
    for (const { child } of this.#places) if (child) send(child, { end: graceS });
    clock.at(clock.now() + graceS * 1e6 + END_US, () => this.kill());
    this.#leave();
  }

  /** Kills all workers. */
  kill(): void {
    for (const { child } of this.#places) child?.kill("SIGKILL");
  }

  #spawn(place: Place): void {
    const { command, setup } = this.options;
    place.listening = false;
    place.refused = null;
    place.ended = null;
    const silent = Promise.withResolvers<void>();
    const child: Child = Bun.spawn([...command, `--worker=${place.index}`], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: (message: FromWorker) => this.#take(place, child, message),
      onDisconnect: () => silent.resolve(),
    });
    place.child = child;
    // Messages of a process may arrive after its end.
    void Promise.all([child.exited, silent.promise]).then(() => this.#gone(place, child));
    send(child, { start: setup(place.index, this.#paused) });
  }

  #take(place: Place, child: Child, message: FromWorker): void {
    if ("listening" in message) this.#listens(place, message.listening);
    else if ("refused" in message) {
      place.refused = message.refused;
      this.#ready.reject(new StartRefused(message.refused, message.code));
    } else if ("ended" in message) {
      place.ended = message.ended;
    } else if ("did" in message) {
      this.#did(message.did, message.answer);
    } else {
      const { ask, command } = message;
      void this.#broadcast(command).then((answer) => send(child, { done: ask, answer }));
    }
  }

  #listens(place: Place, url: string): void {
    const { clock } = this.options;
    place.listening = true;
    place.listeningUs = clock.now();
    // The other workers may have been paused or resumed while this one started.
    if (this.#isReady) void this.#order(place.child!, this.#paused ? PAUSE : { name: "resume" });
    if (this.#isReady) void this.#order(place.child!, this.#sleeps);
    if (this.#places.every(({ listening }) => listening)) this.#ready.resolve(url);
  }

  /** Sends a command to all workers that listen. Resolves with true if all answered true. */
  async #broadcast(command: WorkerCommand): Promise<boolean> {
    if (command.name === "sleeps") this.#sleeps = command;
    if (command.name === "pause") this.#paused = true;
    if (command.name === "resume") this.#paused = false;
    const children = this.#places.flatMap(({ child, listening }) => (child && listening ? [child] : []));
    const answers = await Promise.all(children.map((child) => this.#order(child, command)));
    return answers.every(Boolean);
  }

  /** Sends a command to a worker. Resolves with the worker's answer, or with true if the worker ends before it answers. */
  #order(child: Child, command: WorkerCommand): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const order = ++this.#lastOrder;
    this.#orders.set(order, { child, done: resolve });
    send(child, { order, command });
    return promise;
  }

  /** Resolves the command with this number. Ignores a number whose command is resolved already. */
  #did(number: number, answer: boolean): void {
    this.#orders.get(number)?.done(answer);
    this.#orders.delete(number);
  }

  #gone(place: Place, child: Child): void {
    const { exitCode, signalCode: signal } = child;
    const { retire } = this.options;
    const orderly = place.ended !== null && exitCode === 0;
    const death: Death = { exitCode, signal: signal === null ? null : String(signal), orderly };
    place.child = null;
    if (this.#ending !== null) this.#open += place.ended ?? 0;
    // Nothing that the commands were to change is left in an ended worker, so they count as run.
    for (const [number, order] of this.#orders) if (order.child === child) this.#did(number, true);
    const lost = retire(place.index, death);
    this.#ready.reject(new StartRefused(`worker ${place.index} ${how(death)} while it started`, undefined));
    if (this.#ending === null) this.#again(place, child, death, lost);
    this.#leave();
  }

  /** Restarts a worker that ended unexpectedly, or shuts down after too many short lives. */
  #again(place: Place, { pid }: Child, death: Death, lost: string): void {
    const { clock, say } = this.options;
    if (!this.#isReady) return;
    const what = `worker ${place.index} (process ${pid}) ${place.refused ?? how(death)}${lost}`;
    if (death.exitCode === CORE_TRAPPED) {
      say(`${what}; its core trapped, so the server ends`);
      this.end(0, CORE_TRAPPED);
      return;
    }
    const delayUs = place.restarts.died(place.listening ? clock.now() - place.listeningUs : 0);
    place.listening = false;
    if (delayUs === null) {
      say(`${what}; it does not stay, so the server ends`);
      this.end(0, GAVE_UP);
      return;
    }
    say(`${what}; started anew in ${delayUs / 1e6} s`);
    clock.at(clock.now() + delayUs, () => {
      if (this.#ending === null) this.#spawn(place);
    });
  }

  /** Resolves `exited` if the server is shutting down and no worker is left. */
  #leave(): void {
    if (this.#ending !== null && this.#places.every(({ child }) => child === null)) this.#exit(this.#ending);
  }
}

const PAUSE: WorkerCommand = { name: "pause", mode: "keep", clearCache: false };

function how({ exitCode, signal }: Death): string {
  return signal === null ? `ended with ${exitCode}` : `was killed by ${signal}`;
}

/** Sends a message. Ignores errors of a worker that has exited, because `exited` of its process reports that. */
function send(child: Child, message: ToWorker): void {
  try {
    child.send(message);
  } catch {}
}
