/**
 * Where do the servers of a Node process run? In one child of it: the packaged Bun. The first start pays for the child, and
 * the others open a listener and an engine in it. Its standard input is closed by the system when this process goes away,
 * however that happens; the child then ends. Built as a file of its own, which Node itself loads: a test runner that gives
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

/** One server's end of the line: texts go both ways, without line breaks. */
export interface ChildLine {
  send(text: string): void;
  /** The process is kept alive while somebody waits for an answer, by so many more or fewer. */
  wait(change: 1 | -1): void;
  /** Nothing more is said or heard. */
  close(): void;
}

export interface LinkListener {
  heard(text: string): void;
  /** The child is gone: what happened, in words. */
  gone(why: string): void;
}

/** What `bin/find-bun.cjs` has; the command reads it too. */
interface FindBun {
  readonly findBun: () => string | null;
  /** What to do where there is none. */
  readonly CURE: string;
}

/**
 * Bun lets so many cores have memory whose bounds the processor checks, 8 unless told; those beyond are compiled anew, each.
 * Servers that were closed or reset hold theirs until they are collected.
 */
const MEMORIES = { BUN_JSC_maxNumWasmFastMemories: "1024" };

/** So much of what a child says last is told when it ends. */
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
    // Bun would read .env and bunfig.toml of the caller's folder at its start: the child goes there by itself.
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

/** Why the options are not taken, in one line; null: they are. */
export function whyNot(options: ServerOptions): string | null {
  try {
    return whyNotShown(serverSetup(options).config) ?? null;
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
}

/** By the folder that relative paths of options are in. */
const children = new Map<string, Child>();

/** A new server's line. Throws where no Bun is installed. */
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
