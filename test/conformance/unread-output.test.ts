/** Tests that servers with a closed or unread standard output continue to serve, and drop and count lines above a limit. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { main } from "../program.ts";
import { eventually, sample } from "../server.ts";

setDefaultTimeout(30_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-output-"));
afterAll(() => rmSync(folder, { recursive: true }));

const DROPPED = "understudy_log_lines_dropped_total";
/** One access log line of this request takes 8 KB, so that 1 MiB is full after some 130 of them. */
const LONG = `/v1/models?x=${"y".repeat(8000)}`;

let started = 0;

/**
 * Starts a server in a shell in which `rest` follows its command. Returns its URLs, after it listens, and its shell.
 * The shell is not read from, and the server has no other output than `rest` gives it.
 */
async function startInShell(flags: string, rest: string) {
  const ready = join(folder, `ready-${started++}`);
  const command = `${process.execPath} ${main} serve ${flags} --ready-file ${ready} ${rest}`;
  const shell = Bun.spawn(["bash", "-c", command], { stdout: "ignore", stderr: "ignore", cwd: folder });
  await eventually(() => existsSync(ready), 1500);
  const { url, metricsUrl, pid } = JSON.parse(readFileSync(ready, "utf8"));
  return { url, metricsUrl, pid, shell };
}

type ShellServer = Awaited<ReturnType<typeof startInShell>>;

async function get(url: string, path: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const answer = await fetch(url + path);
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
  }
}

/** Ends a server with SIGHUP, which works with any output. */
async function hangUp({ pid, shell }: ShellServer): Promise<void> {
  process.kill(pid, "SIGHUP");
  await eventually(() => !existsSync(`/proc/${pid}`));
  await shell.exited;
}

/** Outputs that are closed. Three lines are in the banner of each role. */
const CLOSED = [
  ["its reader ends after 3 lines", "2>&1 | head -3 >head.txt"],
  ["its reader has ended before the start", "2>&1 | true"],
  ["both streams are closed before the start", ">&- 2>&-"],
] as const;

const SERVERS = ["--port 0", "--port 0 --workers 2", "--role trtllm-serve --port 0"];

for (const flags of SERVERS) {
  for (const [name, rest] of CLOSED) {
    test(`serve ${flags} continues to serve if ${name}`, async () => {
      const server = await startInShell(flags, rest);
      await get(server.url, "/v1/models", 20);
      if (rest.includes("|") && !flags.includes("trtllm")) {
        await eventually(async () => (await sample(server.url, DROPPED)) >= 20);
        expect(await sample(server.url, "understudy_worker_restarts_total")).toBe(0);
      }
      await hangUp(server);
    });
  }
}

describe.each(SERVERS)("serve %s", (flags) => {
  test("a server whose output is not read keeps a limited number of lines, and reports the number of missing ones", async () => {
    const [go, read] = [join(folder, `go-${started}`), join(folder, `read-${started}`)];
    const server = await startInShell(flags, `2>&1 | (while [ ! -e ${go} ]; do sleep 0.02; done; cat >${read})`);
    await get(server.url, LONG, 400);
    // 400 lines of 8 KB do not fit into 1 MiB for each of two processes and the 64 KiB of a pipe.
    if (!flags.includes("trtllm")) expect(await sample(server.url, DROPPED)).toBeGreaterThan(80);
    writeFileSync(go, "");
    await eventually(() => existsSync(read) && readFileSync(read, "utf8").includes("lines were dropped"));
    await get(server.url, "/health", 3);
    const lines = () => readFileSync(read, "utf8").split("\n");
    await eventually(() => lines().some((line) => line.includes("GET /health")));
    const noticed = lines().flatMap(
      (line) => /(\d+) log lines were dropped because nothing read them$/.exec(line)?.[1] ?? [],
    );
    const kept = lines().filter((line) => line.includes("yyy")).length;
    expect(kept + noticed.map(Number).reduce((sum, n) => sum + n, 0)).toBeGreaterThanOrEqual(400);
    expect(kept).toBeGreaterThan(100);
    await hangUp(server);
  });
});

/** A model that prints 64 KB per request, in each way that a program has. */
const TALKATIVE = `export default { async execute(requests) {
  for (let i = 0; i < 16; i++) { console.log("l".repeat(1000)); console.error("e".repeat(1000)); }
  process.stdout.write("o".repeat(16000) + "\\n"); process.stderr.write("w".repeat(16000) + "\\n");
  return requests.map(({ inputs }) => ({ outputs: [{ ...inputs.get("x"), name: "y" }] }));
} };`;

for (const [name, rest] of [...CLOSED, ["nothing reads it", "2>&1 | (sleep 1000 & echo $! >sleeper; wait)"]] as const) {
  test(`a Triton server with a model.ts that prints continues to serve if ${name}`, async () => {
    const models = join(folder, "models");
    mkdirSync(join(models, "talkative", "1"), { recursive: true });
    writeFileSync(
      join(models, "talkative", "config.pbtxt"),
      `backend: "python" input { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "y" data_type: TYPE_INT32 dims: [ 1 ] }`,
    );
    writeFileSync(join(models, "talkative", "model.ts"), TALKATIVE);
    const ports = "--http-port 0 --grpc-port 0 --metrics-port 0";
    const server = await startInShell(`--role triton --model-repository ${models} ${ports}`, rest);
    const body = JSON.stringify({ inputs: [{ name: "x", shape: [1], datatype: "INT32", data: [1] }] });
    for (let i = 0; i < 60; i++) {
      const answer = await fetch(`${server.url}/v2/models/talkative/infer`, { method: "POST", body });
      expect(await answer.text()).toContain('"data":[1]');
    }
    if (rest.includes("|")) expect(await sample(server.metricsUrl, DROPPED)).toBeGreaterThan(60);
    if (rest.includes("sleeper")) process.kill(Number(readFileSync(join(folder, "sleeper"), "utf8")));
    await hangUp(server);
  });
}

/** Commands that exit by themselves must not complain about a missing reader. */
for (const command of ["load --help", "check nonsense", "timing list", "help", "stress --client list"]) {
  test(`${command.split(" ")[0]} ends quietly without a reader`, async () => {
    const errors = join(folder, "errors.txt");
    const words = `${process.execPath} ${main} ${command} 2>${errors} | true; echo "\${PIPESTATUS[0]}"`;
    const shell = Bun.spawn(["bash", "-c", words], { stdout: "pipe" });
    const code = Number(await shell.stdout.text());
    expect([command, code]).toEqual([command, command.includes("nonsense") ? 2 : 0]);
    expect(readFileSync(errors, "utf8")).not.toMatch(/EPIPE|^\s+at /m);
  });
}
