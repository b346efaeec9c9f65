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
import { bars, options, root, save, table } from "./lib/bench.ts";
import { CHAT_PATH, chat, post } from "./lib/client.ts";
import { median, medianRatio } from "./lib/numbers.ts";
import { freePort, inTurns, scheduled } from "./lib/servers.ts";

const { runs: wanted, server: other } = options({ runs: 15, server: "" }, ["--realtime"]);

/** Bounds as multiples of the bare server's time. */
const BAR = { health: 2, token: 2.7 };
/** Bound of the file's time to the first 200, as a multiple of the bundle's. */
const FILE_BAR = 1.1;
const MODEL = "m";
const FLAGS = ["--timing", "none", "--served-model-name", MODEL];

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

/** Reports whether a request is answered with 200 and a body that contains `wanted`. Reads no further than that. */
async function isAnswered(answering: Promise<Response>, wanted: string): Promise<boolean> {
  try {
    const answer = await answering;
    let text = "";
    const decoder = new TextDecoder();
    for await (const part of answer.body ?? []) {
      text += decoder.decode(part, { stream: true });
      if (wanted !== "" && text.includes(wanted)) break;
    }
    return answer.ok && text.includes(wanted);
  } catch {
    return false;
  }
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
    while (!(await isAnswered(fetch(`http://127.0.0.1:${port}${health}`, { keepalive: false }), ""))) {
      if (child.exitCode !== null) throw new Error(`${words.join(" ")}: exited with code ${child.exitCode}`);
      await Bun.sleep(1);
    }
    const healthMs = performance.now() - began;
    const stream = () => post(port, CHAT_PATH, chat("Say something.", 4, { model: MODEL }), { keepalive: false });
    if (streams && !(await isAnswered(stream(), '"content":')))
      throw new Error(`${words.join(" ")}: streamed no token`);
    return { healthMs, tokenMs: streams ? performance.now() - began : Number.NaN };
  } finally {
    child.kill();
    await child.exited;
  }
}

const starts = Object.fromEntries(Object.entries(contenders).map(([name, each]) => [name, () => once(each)]));
// The first round is a warm-up, which fills the page cache and builds the bundle of the checkout.
const runs = await inTurns("start", wanted, starts, 1);
const healths = Object.fromEntries(Object.entries(runs).map(([name, all]) => [name, all.map((run) => run.healthMs)]));
const rows = Object.entries(runs).map(([name, all]) => {
  const [health, tokens, bare] = [healths[name]!, all.map(({ tokenMs }) => tokenMs), healths.bare!];
  return {
    ...{ name, healthMs: median(health), leastHealthMs: Math.min(...health), tokenMs: median(tokens) },
    ...{ healthTimes: medianRatio(health, bare), tokenTimes: medianRatio(tokens, bare) },
  };
});
table(`Time from exec, ms, ${wanted} starts of each program`, [
  ["", "first 200", "shortest", "first token", "200 ÷ bare", "token ÷ bare"],
  ...rows.map((row) => Object.values(row)),
]);
const bundle = rows.find(({ name }) => name === "bundle")!;
bars(
  ["health", bundle.healthTimes, BAR.health, "times the bare server"],
  ["token", bundle.tokenTimes, BAR.token, "times the bare server"],
  ["file", medianRatio(healths.file!, healths.bundle!), FILE_BAR, "times the bundle"],
);
save("start", { runs: wanted, rows });
