/**
 * An engine in this process whose answers the test sets: each request that a front end sends it gets the next script. So bodies
 * of clients stay as they are, and a request of several choices, which is several requests for an engine, gets one script each.
 */
import { readFileSync } from "node:fs";
import type { ServeConfig } from "../../src/app/config/serve-config.ts";
import { startApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { vllmEngine } from "../../src/servers/vllm-engine/server.ts";
import { readScript, type Script } from "../../src/text/canned/script.ts";

/** The answer without a script: the end of sequence. */
const SILENCE = readScript({ sequences: [], logprobs: "ranked" }, "silence");

export class FedEngine {
  /** Requests that have taken a script since `feed`. */
  taken = 0;
  #scripts: readonly Script[] = [];

  private constructor(
    private readonly live: () => number,
    readonly stop: () => Promise<unknown>,
  ) {}

  /** `flags`: options of the engine. Rejects with the line of a refused option. */
  static async start(flags: readonly string[]): Promise<FedEngine> {
    const words = ["--role=vllm-engine", "--port=0", ...flags];
    const resolved = resolveServeConfig(words, {}, (path) => readFileSync(path, "utf8"));
    if (!("config" in resolved)) throw new Error("error" in resolved ? resolved.error : resolved.help);
    let engine: FedEngine | null = null;
    const queue = new Proxy([] as Script[], { get: () => engine?.next() });
    const fed: typeof vllmEngine = {
      ...vllmEngine,
      start: (kernel) =>
        vllmEngine.start({ ...kernel, text: { ...kernel.text, canned: { plays: { named: new Map(), queue } } } }),
    };
    const app = await startApp<ServeConfig>(fed as never, resolved.config, { log: () => {} });
    engine = new FedEngine(
      () => app.engines.live,
      () => app.close(0),
    );
    return engine;
  }

  /** Sets the scripts of the next requests. */
  feed(scripts: readonly Script[]): void {
    this.#scripts = scripts;
    this.taken = 0;
  }

  next(): Script {
    return this.#scripts[this.taken++] ?? SILENCE;
  }

  /** Resolves when the engine has no request. */
  async idle(): Promise<void> {
    while (this.live() > 0) await Bun.sleep(1);
  }
}
