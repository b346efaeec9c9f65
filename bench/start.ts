/**
 * How long from exec to the first /health 200, and to the first streamed token?
 *
 *   bun run bench:start [--runs 15] [--server "command"] [--realtime] [--no-save]
 */
import { median } from "./lib/numbers.ts";
import { known, number } from "./lib/options.ts";
import { freePort, scheduled, serverCommand } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

const BAR_MS = { health: 250, token: 700 };
const HEALTH = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

known(["--runs", "--server", "--realtime", "--no-save"]);

/** Sends `text` on a new connection; resolves with true when `wanted` stands in the answer, false when it cannot be had. */
function ask(port: number, text: string, wanted: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let answer = "";
  Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      open: (socket) => void socket.write(text),
      data(socket, bytes) {
        answer += bytes.toString("latin1");
        if (!answer.includes(wanted)) return;
        resolve(true);
        socket.end();
      },
      close: () => resolve(false),
      error: () => resolve(false),
      connectError: () => resolve(false),
    },
  }).catch(() => resolve(false));
  return promise;
}

function streamRequest(): string {
  const body = JSON.stringify(chat("Say something.", 4));
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: 127.0.0.1",
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

async function once(): Promise<{ healthMs: number; tokenMs: number }> {
  const port = freePort();
  const command = [...serverCommand(["--timing", "none"]), "--port", String(port)];
  const began = performance.now();
  const child = Bun.spawn(scheduled(command), { cwd: root, stdout: "ignore", stderr: "inherit" });
  try {
    while (!(await ask(port, HEALTH, " 200 "))) {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
      await Bun.sleep(1);
    }
    const healthMs = performance.now() - began;
    if (!(await ask(port, streamRequest(), '"content":'))) throw new Error("no token came");
    return { healthMs, tokenMs: performance.now() - began };
  } finally {
    child.kill();
    await child.exited;
  }
}

const runs: Awaited<ReturnType<typeof once>>[] = [];
const wanted = number("--runs", 15);
await once(); // reads the files into the page cache
for (let i = 0; i < wanted; i++) {
  progress(`start: ${i + 1} of ${wanted}`);
  runs.push(await once());
}
const row = (name: string, values: number[]) => [name, median(values), Math.min(...values), Math.max(...values)];
const health = runs.map(({ healthMs }) => healthMs);
const token = runs.map(({ tokenMs }) => tokenMs);
table(`From exec, ms, ${wanted} starts`, [
  ["", "median", "least", "most"],
  row("first /health 200", health),
  row("first streamed token", token),
]);
console.log(`  ${bar("health", median(health), BAR_MS.health, "ms")}`);
console.log(`  ${bar("token", median(token), BAR_MS.token, "ms")}`);
save("start", {
  runs: wanted,
  healthMs: median(health),
  tokenMs: median(token),
  mostHealthMs: Math.max(...health),
  mostTokenMs: Math.max(...token),
});
