/** Sends requests at random times to one server of a soak run. */
import { TritonClient } from "../triton/grpc-client.ts";
import { type Action, clientActions, operations, type WeightedAction } from "./actions.ts";
import { SoakClient } from "./client.ts";
import { Draw } from "./draw.ts";
import type { SoakFolders, SoakServer } from "./servers.ts";

/** Limit of open requests to one server. A request above it is left out and counted. */
const OPEN_MAX = 150;
const OPERATE_EVERY_MS = 3000;
const WRONG_KEPT = 20;

export interface TrafficResult {
  readonly sent: number;
  /** Requests left out because `OPEN_MAX` were open. */
  readonly leftOut: number;
  /** Requests sent again because their connection was reset before an answer. */
  readonly resent: number;
  readonly wrongCount: number;
  /** The first 20 errors, each with the name of its action. */
  readonly wrong: readonly string[];
}

export class Traffic {
  readonly #draw: Draw;
  readonly #client: SoakClient;
  readonly #actions: readonly WeightedAction[];
  readonly #operations: readonly Action[];
  readonly #grpc: TritonClient | null;
  readonly #open = new Set<Promise<void>>();
  readonly #wrong: string[] = [];
  #wrongCount = 0;
  #sent = 0;
  #leftOut = 0;
  #next: Timer | undefined;
  #operating: Timer | undefined;
  #stopped = false;

  constructor(server: SoakServer, folders: SoakFolders, seed: number, keepsConnections: boolean) {
    this.#draw = new Draw(seed);
    const client = new SoakClient(server.url, keepsConnections);
    this.#client = client;
    this.#grpc = server.role === "triton" ? new TritonClient(server.grpcPort) : null;
    this.#actions = clientActions(server.role, client, this.#grpc);
    this.#operations = operations(server.role, client, folders);
  }

  /**
   * Starts the traffic: `perSecond` requests per second, with exponentially distributed gaps, and operations at fixed
   * intervals.
   */
  start(perSecond: number): void {
    const next = () => {
      if (this.#stopped) return;
      const { name, run } = this.#draw.weighted(this.#actions);
      this.#do(name, run);
      this.#next = setTimeout(next, (-Math.log(1 - this.#draw.share()) * 1000) / perSecond);
    };
    next();
    let turn = 0;
    this.#operating = setInterval(() => {
      const at = turn++ % this.#operations.length;
      this.#do(`operation ${at}`, this.#operations[at]!);
    }, OPERATE_EVERY_MS);
  }

  /** Runs each action and each operation once, so that all threads of the server start. */
  each(): void {
    for (const { name, run } of this.#actions) this.#do(name, run);
    for (const run of this.#operations) this.#do("operation", run);
  }

  #do(name: string, run: Action): void {
    if (this.#open.size >= OPEN_MAX) {
      this.#leftOut++;
      return;
    }
    this.#sent++;
    const done = run(this.#draw)
      .catch((error: unknown) => {
        this.#wrongCount++;
        if (this.#wrong.length < WRONG_KEPT) this.#wrong.push(`${name}: ${error}`);
      })
      .finally(() => this.#open.delete(done));
    this.#open.add(done);
  }

  /** Stops sending, waits for the open requests, and returns the results. */
  async stop(): Promise<TrafficResult> {
    this.#stopped = true;
    clearTimeout(this.#next);
    clearInterval(this.#operating);
    await Promise.all(this.#open);
    this.#grpc?.close();
    return {
      sent: this.#sent,
      leftOut: this.#leftOut,
      resent: this.#client.resent,
      wrongCount: this.#wrongCount,
      wrong: this.#wrong,
    };
  }
}
