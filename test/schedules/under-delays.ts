/** Runs programs whose threads read a shared page. Each thread is delayed by the page's seed, and fails on order. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type StartedProgram, startProgram } from "../started-program.ts";
import { writeFixture } from "./load.ts";
import { Page } from "./page.ts";
import { type ServerLoad, WrongAnswer } from "./role-load.ts";
import { type Setup, vllm } from "./roles.ts";

const PRELOAD = new URL("./delays.ts", import.meta.url).pathname;
const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;

/** Time after which work counts as stuck, in milliseconds. */
const HANGS_MS = 30_000;
/** Time to wait for the exit of a process after its connection broke, in milliseconds. */
const END_IS_KNOWN_MS = 1000;

const URL_OF = /http:\/\/127\.0\.0\.1:\d+/;

/** A program that serves at `url`. */
export class DelayedProgram {
  readonly url: string;

  private constructor(
    readonly page: Page,
    private readonly program: StartedProgram,
  ) {
    this.url = URL_OF.exec(program.output())![0];
  }

  /** Starts `command` and waits until it has printed `isReady` and a URL. Rejects with its output if it exits before. */
  static async start(
    page: Page,
    command: readonly string[],
    { env = {}, isReady = URL_OF }: Partial<Pick<Setup, "env" | "isReady">> = {},
  ): Promise<DelayedProgram> {
    const words = [process.execPath, "--preload", PRELOAD, ...command];
    const hasStarted = (output: string) => URL_OF.test(output) && isReady.test(output);
    // Crash files are written to this folder.
    const place = { cwd: page.folder, env: { ...process.env, ...env, ...page.env } };
    return new DelayedProgram(page, await startProgram(words, hasStarted, place));
  }

  /** Everything that the program has printed. */
  get output(): string {
    return this.program.output();
  }

  get exited(): Promise<number> {
    return this.program.exited;
  }

  /** Rejects with `WrongAnswer` if the program exits before `work` is done, or if `work` takes too long. */
  async during(work: Promise<void>): Promise<void> {
    const ended = this.exited.then((code) => {
      throw new WrongAnswer(`the program ended with ${code}:\n${this.output.slice(-1500)}`);
    });
    const hangs = Promise.withResolvers<never>();
    const timer = setTimeout(() => hangs.reject(new WrongAnswer(`no end after ${HANGS_MS / 1000} s`)), HANGS_MS);
    for (const promise of [work, ended, hangs.promise]) promise.catch(() => {});
    try {
      await Promise.race([work, ended, hangs.promise]);
    } catch (error) {
      if (!(error instanceof WrongAnswer)) await Promise.race([ended, Bun.sleep(END_IS_KNOWN_MS)]);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the program with SIGTERM, without delays, and returns its exit code. */
  async stop(): Promise<number> {
    this.page.seed = 0;
    const code = await this.program.stop();
    this.page.remove();
    return code;
  }
}

/** Flags of the servers that share the seeds. */
export const SERVERS: readonly (readonly string[])[] = [
  ["--enable-lora"],
  ["--enable-lora", "--stream-writes", "single"],
  ["--workers", "2"],
];

/** Matches an error in a server's output. Lines about loaded fixtures and late steps are not errors. */
const ERROR_LINE = /^.*(?:error|exception|failed|understudy serve:).*$/im;

/** A server, and a load that checks its pages and answers. */
export class DelayedServer {
  readonly program: DelayedProgram;
  readonly load: ServerLoad;

  private constructor(program: DelayedProgram, load: ServerLoad) {
    this.program = program;
    this.load = load;
  }

  /** Starts a server and its load. `page`: a page that already orders a failure. The caller must then call `learn`. */
  static async start(setup: Setup, page?: Page): Promise<DelayedServer> {
    const hasLearned = page === undefined;
    page ??= new Page();
    const { folder } = page;
    mkdirSync(join(folder, "fixtures"));
    writeFixture(folder, 0);
    const program = await DelayedProgram.start(page, [MAIN, "serve", ...setup.flags(folder)], setup);
    const load = setup.load({ url: program.url, folder, output: program.output });
    if (hasLearned) await load.learn();
    return new DelayedServer(program, load);
  }

  /** Runs the load of a seed. Rejects with `WrongAnswer`, also if the server prints an error. */
  async run(seed: number): Promise<void> {
    const printed = this.program.output.length;
    this.program.page.seed = seed;
    await this.program.during(this.load.run(seed));
    const error = ERROR_LINE.exec(this.program.output.slice(printed));
    if (error) throw new WrongAnswer(`the server printed: ${error[0]}`);
  }
}

export interface SeedFailure {
  readonly seed: number;
  readonly failure: string;
  /** Number of further runs of the seed that failed, and of all further runs. */
  readonly again: number;
  readonly of: number;
}

/** Number of further runs of a seed that failed. */
const AGAIN = 20;

/**
 * Runs the seeds in order on a server with these flags, and starts a new server after each failure. Ends after `findsMax`
 * failures.
 */
export async function findsOf(seeds: Iterable<number>, flags: readonly string[], findsMax = 3): Promise<SeedFailure[]> {
  const finds: SeedFailure[] = [];
  let server = await DelayedServer.start(vllm(flags));
  const failureOf = async (seed: number): Promise<string | null> => {
    try {
      await server.run(seed);
      return null;
    } catch (error) {
      await server.program.stop();
      server = await DelayedServer.start(vllm(flags));
      return String(error);
    }
  };
  for (const seed of seeds) {
    const failure = await failureOf(seed);
    if (failure === null) continue;
    let again = 0;
    for (let run = 0; run < AGAIN; run++) if ((await failureOf(seed)) !== null) again++;
    finds.push({ seed, failure, again, of: AGAIN });
    if (finds.length === findsMax) break;
  }
  const code = await server.program.stop();
  if (code !== 0) finds.push({ seed: 0, failure: `after SIGTERM the server ended with ${code}`, again: 0, of: 0 });
  return finds;
}

/** Describes a failure with the command that repeats it. */
export function describeFind({ seed, failure, again, of }: SeedFailure): string {
  return `seed ${seed}, again in ${again} of ${of} runs (npx bun run test schedules --from ${seed} --seeds 1): ${failure}`;
}
