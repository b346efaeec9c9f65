/** The child of `server-child.ts`, on Bun: serves what the first line of its input asks for, until the input ends. */

import type { Server } from "./server.ts";
import type { ChildReport, ServerRequest } from "./server-child.ts";
import { createServer } from "./server-in-process.ts";

const report = (what: ChildReport) => process.stdout.write(`${JSON.stringify(what)}\n`);
const lines = console[Symbol.asyncIterator]();
const { value, done } = await lines.next();
if (done) process.exit(0);

let server: Server;
try {
  const { options, cwd }: ServerRequest = JSON.parse(value);
  process.chdir(cwd);
  server = await createServer(options).ready;
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  report({ error: message, code });
  process.exit(1);
}
report({ url: server.url });
while (!(await lines.next()).done);
await server.close();
process.exit(0);
