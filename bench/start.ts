/**
 * Measures the time from exec to the first 200 of `/health`, and to the first streamed token. A bare Elysia server is measured
 * from exec to its first answer. Each round starts each program once, so that other work of the machine affects all of them.
 * Ratios are medians over the rounds.
 *
 * Rows:
 * - `bundle`: the packaged program under Bun, as `bunx --bun understudy` and a container start it.
 * - `checkout`: the launcher of this checkout, which also checks whether its bundle is up to date.
 * - `source`: `bun src/main.ts`.
 * - `launcher`: the package's command, which Node runs.
 * - `node`: Node with an empty script, which is part of the launcher's time.
 * - `file`: the single file.
 * - `file, load --help`: a command for which the file replaces its own process; `settings given`: without that second start.
 *
 *   bun run bench start [--runs 15] [--server "command"] [--realtime] [--no-save]
 *
 * `--server` adds another program, such as one of another commit.
 */
import loadOptions from "../bin/load-options.json";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { freePort, scheduled } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

/** Bounds as multiples of the bare server's time. */
const BAR = { health: 2, token: 2.7 };
/** Bound of the file's time to the first 200, as a multiple of the bundle's. */
const FILE_BAR = 1.1;
const MODEL = "m";
const FLAGS = ["--timing", "none", "--served-model-name", MODEL];

rejectUnknown(["--runs", "--server", "--realtime", "--no-save"]);

interface Contender {
  readonly command: readonly string[];
  /** Path that answers 200 once the server is up. Null if the command is no server and ends by itself. */
  readonly health: string | null;
  readonly streams?: boolean;
}

const packed = `${root}build/npm/llm-understudy`;
const bun = process.execPath;
const file = `${root}build/bin/understudy-${process.platform}-${process.arch}`;
const loadSettings = Object.entries(loadOptions).map(([name, value]) => `${name}=${value}`);
const serve = (...command: readonly string[]): Contender => ({
  command: [...command, "serve", ...FLAGS],
  health: "/health",
  streams: true,
});
const other = text("--server", "");
const contenders: Readonly<Record<string, Contender>> = {
  bare: { command: [bun, "bench/lib/bare-elysia.ts"], health: "/health" },
  bundle: serve(bun, `${packed}/server/main.js`),
  "bundle, trtllm-serve": {
    ...serve(bun, `${packed}/server/main.js`),
    command: [bun, `${packed}/server/main.js`, "serve", "--timing", "none", "--role", "trtllm-serve"],
  },
  "bundle, triton": {
    command: [bun, `${packed}/server/main.js`, "serve", "--role", "triton", "--grpc-port", "0", "--metrics-port", "0"],
    health: "/v2/health/ready",
  },
  checkout: serve(bun, "scripts/run.ts"),
  source: serve(bun, "src/main.ts"),
  launcher: serve("node", `${packed}/bin/understudy`),
  node: { command: ["node", "-e", ""], health: null },
  file: serve(file),
  "file, load --help": { command: ["env", file, "load", "--help"], health: null },
  "file, load --help, settings given": { command: ["env", ...loadSettings, file, "load", "--help"], health: null },
  ...(other ? { "--server": { command: [...other.split(" "), ...FLAGS], health: "/health", streams: true } } : {}),
};

/** Sends `text` on a new connection. Resolves with true once the answer contains `wanted`, or false if the connection ends. */
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
  const body = JSON.stringify(chat("Say something.", 4, { model: MODEL }));
  return [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: 127.0.0.1",
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

interface Times {
  readonly healthMs: number;
  /** Time to the first streamed token. NaN if the program streams no tokens. */
  readonly tokenMs: number;
}

async function once({ command, health, streams }: Contender): Promise<Times> {
  const port = freePort();
  const flag = health === "/v2/health/ready" ? "--http-port" : "--port";
  const words = health === null ? command : [...command, flag, String(port)];
  const began = performance.now();
  const child = Bun.spawn(scheduled(words), { cwd: root, stdout: "ignore", stderr: "inherit" });
  if (health === null) {
    await child.exited;
    return { healthMs: performance.now() - began, tokenMs: Number.NaN };
  }
  try {
    while (!(await ask(port, `GET ${health} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`, " 200 "))) {
      if (child.exitCode !== null) throw new Error(`${words.join(" ")}: exited with code ${child.exitCode}`);
      await Bun.sleep(1);
    }
    const healthMs = performance.now() - began;
    if (streams && !(await ask(port, streamRequest(), '"content":')))
      throw new Error(`${words.join(" ")}: streamed no token`);
    return { healthMs, tokenMs: streams ? performance.now() - began : Number.NaN };
  } finally {
    child.kill();
    await child.exited;
  }
}

const wanted = number("--runs", 15);
const names = Object.keys(contenders);
const runs: Record<string, Times[]> = Object.fromEntries(names.map((name) => [name, []]));
for (let round = -1; round < wanted; round++) {
  progress(`start: ${round + 1} of ${wanted}`);
  for (const name of names) {
    const times = await once(contenders[name]!);
    // The first round is a warm-up, which fills the page cache and builds the bundle of the checkout.
    if (round >= 0) runs[name]!.push(times);
  }
}

const ratioTo = (bare: readonly Times[], runs: readonly Times[], key: keyof Times) =>
  median(runs.map((times, round) => times[key] / bare[round]!.healthMs));
const rows = names.map((name) => {
  const [all, bare] = [runs[name]!, runs.bare!];
  const health = all.map(({ healthMs }) => healthMs);
  return {
    name,
    healthMs: median(health),
    leastHealthMs: Math.min(...health),
    tokenMs: median(all.map(({ tokenMs }) => tokenMs)),
    healthTimes: ratioTo(bare, all, "healthMs"),
    tokenTimes: ratioTo(bare, all, "tokenMs"),
  };
});
table(`Time from exec, ms, ${wanted} starts of each program`, [
  ["", "first 200", "shortest", "first token", "200 ÷ bare", "token ÷ bare"],
  ...rows.map((row) => [row.name, row.healthMs, row.leastHealthMs, row.tokenMs, row.healthTimes, row.tokenTimes]),
]);
const bundle = rows.find(({ name }) => name === "bundle")!;
const toBundle = median(runs.file!.map(({ healthMs }, round) => healthMs / runs.bundle![round]!.healthMs));
console.log(`  ${bar("health", bundle.healthTimes, BAR.health, "times the bare server")}`);
console.log(`  ${bar("token", bundle.tokenTimes, BAR.token, "times the bare server")}`);
console.log(`  ${bar("file", toBundle, FILE_BAR, "times the bundle")}`);
save("start", { runs: wanted, rows });
