/**
 * The part of the npm package testcontainers 11.14 that examples/testcontainers/node.ts uses, with the command in place of the
 * image: `UNDERSTUDY` is the command that the image would run. tsconfig.json maps the package's name to this file.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subprocess } from "bun";

class HttpWait {
  readonly path: string;
  readonly port: number;

  constructor(path: string, port: number) {
    this.path = path;
    this.port = port;
  }
}

export const Wait = { forHttp: (path: string, port: number): HttpWait => new HttpWait(path, port) };

export class GenericContainer {
  #command: string[] = [];
  #port = 0;
  #wait: HttpWait | null = null;

  constructor(image: string) {
    if (!/^llm-understudy:\d/.test(image)) throw new Error(`no such image: ${image}`);
  }

  withCommand(command: string[]): this {
    this.#command = command;
    return this;
  }

  withExposedPorts(port: number): this {
    this.#port = port;
    return this;
  }

  withWaitStrategy(strategy: HttpWait): this {
    this.#wait = strategy;
    return this;
  }

  async start(): Promise<StartedContainer> {
    const folder = mkdtempSync(join(tmpdir(), "understudy-container-"));
    const file = join(folder, "ready.json");
    const words = [...this.#command, "--port=0", "--host=127.0.0.1", "--exit-with-parent", `--ready-file=${file}`];
    const child = Bun.spawn([...process.env.UNDERSTUDY!.split(" "), ...words], { stdout: "ignore", stderr: "inherit" });
    while (!existsSync(file)) {
      if (child.exitCode !== null) throw new Error(`the command ended with ${child.exitCode}`);
      await Bun.sleep(20);
    }
    const { url } = JSON.parse(readFileSync(file, "utf8")) as { url: string };
    rmSync(folder, { recursive: true });
    if (this.#wait?.port !== this.#port) throw new Error("the port of the wait strategy is not exposed");
    const answer = await fetch(url + this.#wait.path);
    if (!answer.ok) throw new Error(`${this.#wait.path} answers ${answer.status}`);
    return new StartedContainer(child, this.#port, Number(new URL(url).port));
  }
}

class StartedContainer {
  readonly #child: Subprocess;
  readonly #ports: ReadonlyMap<number, number>;

  constructor(child: Subprocess, port: number, mapped: number) {
    this.#child = child;
    this.#ports = new Map([[port, mapped]]);
  }

  getHost(): string {
    return "127.0.0.1";
  }

  getMappedPort(port: number): number {
    return this.#ports.get(port)!;
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
  }
}
