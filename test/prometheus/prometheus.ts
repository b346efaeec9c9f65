/** A real Prometheus and its promtool, for tests that want to know what they say. Debian's package has both. */
import { createServer } from "node:net";

export const deploy = new URL("../../deploy/", import.meta.url).pathname;

const STARTS_MS = 20_000;

function found(name: string): string {
  const path = Bun.which(name);
  if (path === null) throw new Error(`${name} is not on the path; on Debian: apt-get install prometheus`);
  return path;
}

export interface Ran {
  readonly code: number;
  readonly output: string;
}

/** promtool with these arguments, from the folder `deploy/`. */
export async function promtool(...args: readonly string[]): Promise<Ran> {
  return run([found("promtool"), ...args], { cwd: deploy });
}

/** What promtool finds wrong with a page: code 1 where it cannot read it, 3 where it only dislikes it. */
export async function checkMetrics(
  page: string,
): Promise<{ readonly code: number; readonly findings: readonly string[] }> {
  const { code, output } = await run([found("promtool"), "check", "metrics"], { stdin: page });
  return { code, findings: output.split("\n").filter(Boolean).sort() };
}

interface RunOptions {
  readonly cwd?: string;
  readonly stdin?: string;
}

export async function run(command: readonly string[], { cwd, stdin }: RunOptions = {}): Promise<Ran> {
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

  /** Resolves when it answers. `config` and `data` are a file and a folder. */
  static async start(config: string, data: string): Promise<Prometheus> {
    const port = await freePort();
    const flags = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${data}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--storage.tsdb.retention.time=100y",
    ];
    const child = Bun.spawn([found("prometheus"), ...flags], { stdout: "ignore", stderr: "pipe" });
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

  /** The data of an answer of the HTTP API; what it complains of is thrown. */
  async api<T>(path: string, parameters: Readonly<Record<string, string>> = {}): Promise<T> {
    const body = new URLSearchParams(parameters);
    const get = Object.keys(parameters).length === 0;
    const response = await fetch(`${this.url}/api/v1/${path}`, get ? {} : { method: "POST", body });
    const answer = (await response.json()) as { status: string; data: T; error?: string };
    if (answer.status !== "success") throw new Error(`${parameters.query ?? path}: ${answer.error}`);
    return answer.data;
  }

  /** What an expression gives at a time: seconds since 1970; now without one. A scalar is one sample without labels. */
  async query(expression: string, atS?: number): Promise<Sample[]> {
    type Point = readonly [number, string];
    type Vector = readonly { readonly metric: Record<string, string>; readonly value: Point }[];
    const time: Record<string, string> = atS === undefined ? {} : { time: `${atS}` };
    const { result, resultType } = await this.api<{ resultType: string; result: Vector | Point }>("query", {
      query: expression,
      ...time,
    });
    if (resultType === "scalar") return [{ metric: {}, value: Number((result as Point)[1]) }];
    if (resultType !== "vector") throw new Error(`${expression}: a ${resultType} is no vector`);
    // Prometheus writes +Inf, JavaScript reads Infinity.
    return (result as Vector).map(({ metric, value }) => ({
      metric,
      value: Number(value[1].replace("Inf", "Infinity")),
    }));
  }
}

/** Nobody has it now; Prometheus cannot pick one itself and say which. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}
