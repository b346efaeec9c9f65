/** The child of `child-link.ts`, on Bun: serves what the lines of its input ask for, until the input ends. */

import type { Running } from "./server.ts";
import type { ChildReport, ChildRequest } from "./server-child.ts";
import { startServer } from "./server-in-process.ts";

const servers = new Map<string, Running>();

/** A line is the server's number, a blank, and JSON. */
function report(server: string, what: ChildReport): void {
  process.stdout.write(`${server} ${JSON.stringify(what)}\n`);
}

async function answer(server: string, { call, args }: ChildRequest): Promise<unknown> {
  if (call === "start") {
    const running = await startServer(args[0] as object);
    servers.set(server, running);
    void running.ended.then((why) => {
      if (why !== null) report(server, { ended: why.message });
    });
    return { url: running.url, metricsUrl: running.metricsUrl };
  }
  const running = servers.get(server);
  if (running === undefined) return undefined;
  servers.delete(server);
  await running.close();
  return undefined;
}

async function serve(line: string): Promise<void> {
  const at = line.indexOf(" ");
  const server = line.slice(0, at);
  const request = JSON.parse(line.slice(at + 1)) as ChildRequest;
  const { id } = request;
  try {
    report(server, { id, value: (await answer(server, request)) ?? null });
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    report(server, { id, error: message, code });
  }
}

process.chdir(process.argv[2]!);
for await (const line of console) void serve(line);
process.exit(0);
