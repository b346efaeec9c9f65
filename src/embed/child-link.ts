/**
 * Starts the child process in which all servers of a Node process run, on the packaged Bun. The first server starts the child;
 * others add a listener and an engine to it. The system closes its standard input when this process ends, for any reason, and
 * the child then exits. Built as a separate file that Node itself loads, so that a test runner that gives
 * each test file its own copies of modules still has one child.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { whyNotShown } from "../metrics/shown-bugs.ts";
import type { ServerOptions } from "./option-types.ts";
import { serverSetup } from "./server-options.ts";

/** The connection of one server with the child. Messages are texts without line breaks. */
export interface ChildLine {
  send(text: string): void;
  /** Changes the number of calls that wait for an answer. While it is above 0, the child keeps this process alive. */
  wait(change: 1 | -1): void;
  /** Closes the connection. */
  close(): void;
}

export interface LinkListener {
  heard(text: string): void;
  /** Called when the child has exited, with the reason. */
  gone(why: string): void;
}

/** The exports of `bin/find-bun.cjs`, which the command uses too. */
interface FindBun {
  readonly findBun: () => string | null;
  /** Advice for users without Bun. */
  readonly CURE: string;
}

/**
 * Number of cores whose memory bounds the processor checks. Beyond Bun's default of 8, each core would be compiled again.
 * Closed or reset servers count until they are garbage-collected.
 */
const MEMORIES = { BUN_JSC_maxNumWasmFastMemories: "1024" };

/** Characters of the child's last error output that the message about its end quotes. */
const LAST_WORDS = 2000;

class Child {
  gone = false;
  readonly #process: ChildProcess;
  readonly #stdin: Socket;
  readonly #links = new Map<number, LinkListener>();
  #next = 1;
  #waiting = 0;
  #lastWords = "";

  constructor(bun: string, cwd: string) {
    const entry = fileURLToPath(new URL("../server/child.js", import.meta.url));
    // Without `cwd`, because Bun would read .env and bunfig.toml there. The child changes to the folder by itself.
    this.#process = spawn(bun, ["--no-install", entry, cwd], {
      cwd: fileURLToPath(new URL("../server/", import.meta.url)),
      env: { ...process.env, ...MEMORIES },
    });
    const { stdin, stdout, stderr } = this.#process as unknown as Record<"stdin" | "stdout" | "stderr", Socket>;
    this.#stdin = stdin;
    stdin.on("error", () => {}); // it has ended; `close` says how
    createInterface(stdout).on("line", (line) => {
      const at = line.indexOf(" ");
      this.#links.get(Number(line.slice(0, at)))?.heard(line.slice(at + 1));
    });
    stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS);
      process.stderr.write(text);
    });
    this.#process.on("error", ({ message }) => this.#end(`Bun cannot be started: ${message}`));
    this.#process.on("close", (code, signal) =>
      this.#end(`the server's process ended: ${signal ?? `exit code ${code}`}`),
    );
    for (const part of [this.#process, stdin, stdout, stderr]) part.unref();
  }

  link(listener: LinkListener): ChildLine {
    const id = this.#next++;
    this.#links.set(id, listener);
    return {
      send: (text) => void this.#stdin.write(`${id} ${text}\n`),
      wait: (change) => this.#wait(change),
      close: () => void this.#links.delete(id),
    };
  }

  #wait(change: 1 | -1): void {
    this.#waiting += change;
    const parts = [this.#process, this.#process.stdout as Socket];
    if (this.#waiting > 0) for (const part of parts) part.ref();
    else for (const part of parts) part.unref();
  }

  #end(why: string): void {
    if (this.gone) return;
    this.gone = true;
    const words = this.#lastWords.trim();
    for (const listener of this.#links.values()) listener.gone(words ? `${why}\n${words}` : why);
    this.#links.clear();
  }
}

/** Returns a one-line error for wrong options, or null. */
export function whyNot(options: ServerOptions): string | null {
  try {
    return whyNotShown(serverSetup(options).config) ?? null;
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
}

/** Children by the folder to which relative paths of options refer. */
const children = new Map<string, Child>();

/** Opens the connection of a new server. Throws if no Bun is installed. */
export function openLink(cwd: string, listener: LinkListener): ChildLine {
  let child = children.get(cwd);
  if (child === undefined || child.gone) {
    const { findBun, CURE } = createRequire(import.meta.url)("../bin/find-bun.cjs") as FindBun;
    const bun = findBun();
    if (bun === null) throw new Error(CURE);
    child = new Child(bun, cwd);
    children.set(cwd, child);
  }
  return child.link(listener);
}
