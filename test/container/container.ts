/**
 * Runs the image as a container runtime does: a process with its own mounts, process ids and network, the image's files as a
 * read-only root, and only the image's environment. Needs root on Linux.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../packed.ts";
import { eventually } from "../server.ts";
import type { Image } from "./image.ts";

/**
 * Script of the first process. Arguments: the image's folder, a folder with `hosts`, the user as `65532:65532`, the environment
 * as one word per line, and the command. A runtime makes the folders for its mounts. /dev/shm is as large as Docker's.
 */
const ENTER = `set -e
root=$1 etc=$2 user=$3 environment=$4
shift 4
mkdir -p "$root/proc" "$root/dev" "$root/etc"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
mount --bind "$etc" "$root/etc"
mount -o remount,ro,bind "$root"
ip link set lo up
exec env -i $environment "$(command -v chroot)" --userspec="$user" "$root" "$@"`;

/** Path of the program that runs another one inside a container. */
const NSENTER = Bun.which("nsenter") ?? "nsenter";

export class Container {
  /** Lines that the container printed. */
  text = "";
  /** Time at which the container was started, as `performance.now`. */
  readonly startedMs = performance.now();
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #outputRead: Promise<unknown>;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #user: readonly string[];
  readonly #etc: string;

  /** Starts the image with these arguments, or its own if there are none. `folder`: for files of the container's own. */
  constructor(
    readonly image: Image,
    folder: string,
    words: readonly string[] = [],
  ) {
    const { user, entrypoint, command, environment } = image.config;
    this.#etc = join(folder, "etc");
    mkdirSync(this.#etc, { recursive: true });
    writeFileSync(join(this.#etc, "hosts"), "127.0.0.1 localhost server\n");
    this.#environment = Object.fromEntries(environment.map((line) => line.split(/=(.*)/s).slice(0, 2)));
    this.#user = user.split(":");
    const inside = [...entrypoint, ...(words.length > 0 ? words : command)];
    const namespaces = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"];
    this.#child = Bun.spawn([...namespaces, image.root, this.#etc, user, environment.join("\n"), ...inside], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const read = async (stream: ReadableStream<Uint8Array>) => {
      const decoder = new TextDecoder();
      for await (const chunk of stream) this.text += decoder.decode(chunk, { stream: true });
    };
    this.#outputRead = Promise.all([read(this.#child.stdout), read(this.#child.stderr)]);
  }

  /** Returns the id, outside of the container, of its first process. Null before it exists and after its end. */
  get pid(): number | null {
    if (this.#child.exitCode !== null) return null;
    const path = `/proc/${this.#child.pid}/task/${this.#child.pid}/children`;
    return Number(readFileSync(path, "latin1").trim()) || null;
  }

  /** Runs a command inside the container, as `docker exec` does. */
  exec(words: readonly string[]) {
    const [uid = "", gid = ""] = this.#user;
    const into = [
      "--target",
      `${this.pid}`,
      "--mount",
      "--pid",
      "--net",
      "--root",
      "--wd",
      "--setuid",
      uid,
      "--setgid",
      gid,
    ];
    return run([NSENTER, ...into, ...words], "/", this.#environment);
  }

  /** Returns a command that runs a program of the machine in the container's network, with the container's names of hosts. */
  besides(words: readonly string[]): string[] {
    const script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"';
    const hosts = join(this.#etc, "hosts");
    return [
      NSENTER,
      "--target",
      `${this.pid}`,
      "--net",
      "unshare",
      "--mount",
      "sh",
      "-c",
      script,
      "sh",
      hosts,
      ...words,
    ];
  }

  /**
   * Runs the image's health check after each interval until it succeeds, as Docker does. Returns the milliseconds since the start.
   * Rejects if the container ended.
   */
  async healthyMs(): Promise<number> {
    const { command, intervalMs } = this.image.config.health;
    for (;;) {
      await Bun.sleep(intervalMs);
      if (this.#child.exitCode !== null) throw new Error(`the container ended:\n${this.text}`);
      const { code } = await this.exec(command);
      if (code === 0) return performance.now() - this.startedMs;
    }
  }

  /** Sends SIGTERM to the first process. Returns the exit code and the milliseconds until the end. */
  async stop(): Promise<{ readonly code: number; readonly ms: number }> {
    const [{ pid }, startedMs] = [this, performance.now()];
    if (pid !== null) process.kill(pid, "SIGTERM");
    return this.ended(startedMs);
  }

  /** Waits for the end. */
  async ended(sinceMs = performance.now()): Promise<{ readonly code: number; readonly ms: number }> {
    const code = await this.#child.exited;
    await this.#outputRead;
    return { code, ms: performance.now() - sinceMs };
  }

  /** Waits until the output contains this text. */
  async prints(text: string): Promise<void> {
    await eventually(() => this.text.includes(text) || this.#child.exitCode !== null);
    if (!this.text.includes(text)) throw new Error(`the container ended:\n${this.text}`);
  }
}
