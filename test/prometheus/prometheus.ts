/** Runs a real Prometheus and its promtool. Debian's package `prometheus` has both. */
import { createServer } from "node:net";

export const deploy = new URL("../../deploy/", import.meta.url).pathname;

const STARTS_MS = 20_000;

function programPath(name: string): string {
  const path = Bun.which(name);
  if (path === null) throw new Error(`${name} is not on the path; on Debian: apt-get install prometheus`);
  return path;
}

export interface ProcessResult {
  readonly code: number;
  readonly output: string;
}

/** Runs promtool with these arguments in the folder `deploy/`. */
export async function promtool(...args: readonly string[]): Promise<ProcessResult> {
  return run([programPath("promtool"), ...args], { cwd: deploy });
}

/** Checks a page of metrics with promtool. `code` is 1 if it cannot read the page, and 3 if it only has complaints. */
export async function checkMetrics(
  page: string,
): Promise<{ readonly code: number; readonly findings: readonly string[] }> {
  const { code, output } = await run([programPath("promtool"), "check", "metrics"], { stdin: page });
  return { code, findings: output.split("\n").filter(Boolean).sort() };
}

interface RunOptions {
  readonly cwd?: string;
  readonly stdin?: string;
}

export async function run(command: readonly string[], { cwd, stdin }: RunOptions = {}): Promise<ProcessResult> {
  const child = Bun.spawn([...command], {
    stdin: stdin === undefined ? "ignore" : new Blob([stdin]),
    stdout: "pipe",
    stderr: "pipe",
    ...(cwd === undefined ? {} : { cwd }),
  });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, output: out + err };
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

export class Prometheus {
  readonly url: string;
  readonly #child: Bun.Subprocess;

  private constructor(url: string, child: Bun.Subprocess) {
    this.url = url;
    this.#child = child;
  }

  /** Starts a Prometheus and resolves when it is ready. `config` is a file, `data` a folder. */
  static async start(config: string, data: string): Promise<Prometheus> {
    const port = await freePort();
    const flags = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${data}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--storage.tsdb.retention.time=100y",
    ];
    const child = Bun.spawn([programPath("prometheus"), ...flags], { stdout: "ignore", stderr: "pipe" });
    const log = child.stderr.text();
    const prometheus = new Prometheus(`http://127.0.0.1:${port}`, child);
    const last = performance.now() + STARTS_MS;
    while (!(await prometheus.#ready())) {
      if (child.exitCode !== null) throw new Error(`prometheus ended with ${child.exitCode}:\n${await log}`);
      if (performance.now() > last) throw new Error("prometheus did not become ready");
      await Bun.sleep(50);
    }
    return prometheus;
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
  }

  async #ready(): Promise<boolean> {
    return fetch(`${this.url}/-/ready`).then(
      (response) => response.ok,
      () => false,
    );
  }

  /** Returns the data of an answer of the HTTP API. Throws if the answer is an error. */
  async api<T>(path: string, parameters: Readonly<Record<string, string>> = {}): Promise<T> {
    const body = new URLSearchParams(parameters);
    const get = Object.keys(parameters).length === 0;
    const response = await fetch(`${this.url}/api/v1/${path}`, get ? {} : { method: "POST", body });
    const answer = (await response.json()) as { status: string; data: T; error?: string };
    if (answer.status !== "success") throw new Error(`${parameters.query ?? path}: ${answer.error}`);
    return answer.data;
  }

  /**
   * Returns the value of an expression at `atS`, in seconds since 1970, or now if it is undefined. A scalar is one sample
   * without labels.
   */
  async query(expression: string, atS?: number): Promise<Sample[]> {
    type Point = readonly [number, string];
    type Vector = readonly { readonly metric: Record<string, string>; readonly value: Point }[];
    const time: Record<string, string> = atS === undefined ? {} : { time: `${atS}` };
    const { result, resultType } = await this.api<{ resultType: string; result: Vector | Point }>("query", {
      query: expression,
      ...time,
    });
    if (resultType === "scalar") return [{ metric: {}, value: Number((result as Point)[1]) }];
    if (resultType !== "vector") throw new Error(`${expression}: a ${resultType} is not a vector`);
    // Prometheus writes +Inf, JavaScript reads Infinity.
    return (result as Vector).map(({ metric, value }) => ({
      metric,
      value: Number(value[1].replace("Inf", "Infinity")),
    }));
  }
}

/** Returns a free port. Prometheus cannot choose one and report it. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}
