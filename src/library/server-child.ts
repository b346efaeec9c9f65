/**
 * A server for programs that do not run on Bun: the packaged Bun as a child. What it is asked goes through its standard
 * input, which the system closes when this process goes away, however that happens; the child then ends.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { packagedBun, packageFile } from "./package-files.ts";
import { type Running, type Server, StartingServer } from "./server.ts";
import { type ServerOptions, serverSetup } from "./server-options.ts";

/** What the child is told, in one line: paths among the options are of that folder. */
export interface ServerRequest {
  readonly options: ServerOptions;
  readonly cwd: string;
}

/** What the child says, in one line, when it listens or cannot. */
export type ChildReport = { readonly url: string } | { readonly error: string; readonly code?: string | undefined };

/** `understudy serve` on a free port, without a log. Throws a TypeError for a wrong option. */
export function createServer(options: ServerOptions = {}): Server {
  serverSetup(options);
  return new StartingServer(start({ options, cwd: process.cwd() }));
}

async function start(asked: ServerRequest): Promise<Running> {
  const bun = packagedBun();
  if (!existsSync(bun))
    throw new Error(`Bun's install script has not run; cure: node ${resolve(bun, "../../install.js")}`);
  const child = spawn(bun, [packageFile("src/library/child.ts")], {
    // Not the caller's folder, where Bun would read .env and bunfig.toml at its start; the child goes there by itself.
    cwd: packageFile("."),
    stdio: ["pipe", "pipe", "inherit"],
  });
  const { stdin, stdout } = child as ChildProcess & { stdin: Writable; stdout: Readable };
  stdin.on("error", () => {}); // it ended before it was asked; `ended` says so
  stdin.write(`${JSON.stringify(asked)}\n`);
  const ended = new Promise<string>((done, failed) => {
    child.on("error", failed);
    child.on("close", (code, signal) => done(String(code ?? signal)));
  });
  const first = new Promise<string>((done) => createInterface(stdout).once("line", done));
  const line = await Promise.race([first, ended.then((how) => Promise.reject(new Error(`the server ended: ${how}`)))]);
  const report: ChildReport = JSON.parse(line);
  if ("error" in report) throw Object.assign(new Error(report.error), report.code ? { code: report.code } : {});
  return {
    url: report.url,
    async close() {
      stdin.end();
      await ended;
    },
  };
}
