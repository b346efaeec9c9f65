/** The child process of `child-link.ts`, on Bun. Runs servers as the lines of its standard input request, until the input ends. */

import { ignoreClosedOutput } from "../base/output.ts";
import type { AskedRequest } from "./answers.ts";
import type { FrontOptions, RunningFront } from "./front.ts";
import { startRunningFront } from "./front-in-process.ts";
import { deferred, type OpenPromise, type Running, type ServerCall } from "./server.ts";
import type { ChildReport, ChildRequest, ServerUrls } from "./server-child.ts";
import { startServer } from "./server-in-process.ts";

const servers = new Map<string, Running>();
/** Open questions to predicates of all servers. They resolve with null if the predicate has thrown. */
const questions = new Map<number, OpenPromise<boolean | null>>();
let asked = 0;

/** Writes a line: the number of the server, a space, and JSON. */
function report(server: string, what: ChildReport): void {
  process.stdout.write(`${server} ${JSON.stringify(what)}\n`);
}

async function answer(server: string, { call, args }: ChildRequest): Promise<unknown> {
  if (call === "start") {
    const running = await startServer(args[0] as object);
    return kept(server, running);
  }
  if (call === "startFront") {
    const running = await startRunningFront(args[0] as FrontOptions);
    return { ...kept(server, running), frontUrl: running.frontUrl };
  }
  const running = servers.get(server);
  if (running === undefined) return undefined;
  if (call === "frontOutput") return (running as RunningFront).frontOutput();
  if (call !== "close") {
    const given = args.map((argument) => predicateOf(server, argument) ?? argument) as never;
    return running.call(call as ServerCall, ...given);
  }
  servers.delete(server);
  await running.close();
  return undefined;
}

/** Keeps a running server for later calls, and reports its end. Returns its URLs. */
function kept(server: string, running: Running): ServerUrls {
  servers.set(server, running);
  void running.ended.then((why) => {
    if (why !== null) report(server, { ended: why.message });
  });
  return { url: running.url, metricsUrl: running.metricsUrl };
}

/** Makes a function that asks the parent process to call a predicate, because functions cannot be sent. */
function predicateOf(server: string, argument: unknown) {
  if (typeof argument !== "object" || argument === null || !("predicate" in argument)) return null;
  const predicate = argument.predicate as number;
  return async (request: AskedRequest): Promise<boolean> => {
    const question = ++asked;
    const told = deferred<boolean | null>();
    questions.set(question, told);
    report(server, { asks: question, predicate, request });
    const holds = await told.promise;
    if (holds === null) throw new Error("the predicate has thrown");
    return holds;
  };
}

async function serve(line: string): Promise<void> {
  const at = line.indexOf(" ");
  const server = line.slice(0, at);
  const request = JSON.parse(line.slice(at + 1)) as ChildRequest;
  const { id } = request;
  if (request.call === "told") {
    questions.get(id)?.resolve(request.args[0] as boolean | null);
    questions.delete(id);
    return;
  }
  try {
    report(server, { id, value: (await answer(server, request)) ?? null });
  } catch (error) {
    const { message, name, code } = error as Error & { code?: string };
    report(server, { id, error: message, name, code });
  }
}

// A parent that has died closes the input too, which ends this process.
ignoreClosedOutput();
process.chdir(process.argv[2]!);
for await (const line of console) void serve(line);
process.exit(0);
