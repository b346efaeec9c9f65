/** Tests the command `understudy check` on good, wrong and missing pages: its output and its exit code. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { main } from "../../program.ts";
import { eventually } from "../../server.ts";

const bin = new URL("../../../bin/understudy", import.meta.url).pathname;
const recorded = new URL("recorded/", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-check-"));
const page = readFileSync(`${recorded}vllm-clean-99-rest1.txt`, "utf8");
const running = 'vllm:num_requests_running{engine="0",model_name="m"} 0.0';

async function check(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([process.execPath, main, "check", ...args], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

function file(name: string, text: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

let scrapes = 0;
let hanging = 0;
let left = 0;
let answered = "";
const endless = () =>
  new ReadableStream<Uint8Array>({
    pull: (out) => out.enqueue(Buffer.from("# HELP a b\n".repeat(10_000))),
  });
const answers: Readonly<Record<string, () => Response | Promise<Response>>> = {
  "/metrics": () => new Response(page, { headers: { "content-type": "text/plain; version=0.0.4" } }),
  "/html": () => new Response("<html>hello</html>", { headers: { "content-type": "text/html" } }),
  "/empty": () => new Response(""),
  "/json": () => Response.json({ error: "no" }),
  "/truncated": () => new Response(page.slice(0, 20_000)),
  "/bytes": () => new Response(Buffer.concat([Buffer.from(page), Buffer.from([0x61, 0xff, 0x20, 0x31, 0x0a])])),
  "/endless": () => new Response(endless()),
  "/hangs": () => {
    hanging++;
    return new Promise<Response>(() => undefined);
  },
  "/soon-hangs": () => (left-- > 0 ? new Response("# TYPE a gauge\na 1\n") : new Promise<Response>(() => undefined)),
  "/answered": () => new Response(answered, { headers: { "content-type": "text/plain; version=0.0.4" } }),
  "/stops": () => new Response(new ReadableStream({ start: (out) => out.enqueue(Buffer.from("a 1\n")) })),
  "/busy": () => new Response("busy", { status: 503 }),
  "/grows": () => new Response(`# TYPE a_total counter\na_total ${scrapes++}\n`),
  "/falls": () => new Response(`# TYPE a_total counter\na_total ${100 - scrapes++}\nb 1\n`),
};
let server: ReturnType<typeof Bun.serve>;
let url = "";
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: (request) => answers[new URL(request.url).pathname]?.() ?? new Response("no", { status: 404 }),
  });
  url = `http://127.0.0.1:${server.port}`;
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const DIALECT = "  dialect   vllm 0.30 or later (shown by request_num_preemptions_count); 1 scrape\n";

test("a good page: exit code 0, the dialect with its version, and one summary line", async () => {
  const { code, out, err } = await check(url);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toStartWith(`${url}/metrics\n${DIALECT}`);
  expect(out).toMatch(
    /\n {2}\d+ of 110 laws applicable: \d+ held, 0 violated, 0 notes, \d+ not checkable \(--all lists them\)\n$/,
  );
  expect(out.trimEnd().split("\n")).toHaveLength(3);
  expect(await check(url, "--quiet")).toEqual({ code: 0, out: "", err: "" });
});

test("--all prints a row per law, with the reason if it was not judged", async () => {
  const { code, out } = await check(url, "--all", "--max-num-seqs", "6");
  expect(code).toBe(0);
  expect(out).toContain("  held      V15  e2e_request_latency_seconds_count = Σ request_success_total\n");
  expect(out).toMatch(/ – +G10 .*\(needs two scrapes\)\n/);
  expect(out).toMatch(/ – +V28 .*\(unknown: --max-model-len\)\n/);
  expect(out).toMatch(/ – +N01–N12 {2}no triton metrics here\n/);
  expect(out).toMatch(/\d+ held, 0 violated, 0 notes, \d+ not checkable\n$/);
});

test("a violated law: exit code 1, both values, the scrape, the meaning and known bugs", async () => {
  const path = file("stuck.txt", page.replace(running, running.replace("0.0", "3.0")));
  const { code, out } = await check(path, "--rest");
  expect(code).toBe(1);
  expect(out).toContain("  VIOLATED  G19");
  expect(out).toContain(`E  ${running.replace(" 0.0", "")} = 3, must be = 0, at rest  [${path} at `);
  expect(out).toContain("Looks like: vllm#22545");
  // The violated law comes first and is named again at the end.
  expect(out.split("\n")[1]).toStartWith("  VIOLATED");
  expect(out).toMatch(/\n {2}violated: (\w+, )*G19(, \w+)*\n$/);
  const all = await check(path, "--rest", "--all");
  expect(all.out.split("\n")[1]).toStartWith("  VIOLATED");
  expect(all.out).toMatch(/\n {2}held {6}G02[\s\S]*\n {2}violated: (\w+, )*G19(, \w+)*\n$/);
  const quiet = await check(path, "--rest", "--quiet");
  expect(quiet.code).toBe(1);
  expect(quiet.out).toContain("  VIOLATED  G19");
  expect(quiet.out).not.toContain("not checkable");
});

test("CRLF line ends are reported once, with their likely cause", async () => {
  const { code, out } = await check(file("crlf.txt", page.replaceAll("\n", "\r\n")));
  expect(code).toBe(1);
  expect(out.match(/ends in CRLF/g)).toHaveLength(1);
  expect(out).toMatch(/line 1: the line ends in CRLF; only LF is a line end \(\d+ lines have that\)/);
  expect(out.match(/Looks like: .*/g)).toEqual([
    "Looks like: a text that was saved, checked out or copied with the line ends of Windows",
  ]);
  expect(out).toMatch(/, 1 violated, /);
});

test("a saved part of a page is reported as an excerpt, a server's answer never is", async () => {
  const lines = page.split("\n");
  const at = lines.findIndex((line) => line.startsWith("vllm:request_success_total"));
  const part = lines.toSpliced(at + 1, 3, "...").join("\n");
  const { code, out } = await check(file("part.txt", part));
  expect(code).toBe(0);
  expect(out).toContain(
    `part.txt is an excerpt (lines ${at + 2} stand for left-out lines): judged as far as it goes\n`,
  );
  answered = part;
  const served = await check(`${url}/answered`);
  expect(served.code).toBe(1);
  expect(served.out).toContain(`line ${at + 2}: "..." is not a metric name`);
});

test("--engine-version overrides the version that the page shows", async () => {
  const { code, out } = await check(url, "--engine-version", "0.14.1,24.05");
  expect(code).toBe(0);
  expect(out).toContain("dialect   vllm 0.12 to 0.29 (shown by --engine-version 0.14.1); 1 scrape");
});

const WITHOUT_PAGE: readonly (readonly [path: string, why: string])[] = [
  ["/html", "HTML or XML, not an exposition"],
  ["/empty", "an empty answer"],
  ["/json", "JSON, not an exposition"],
  ["/endless", "more than 1 MiB of text"],
  ["/hangs", "no complete answer within 0.3 s"],
  ["/stops", "no complete answer within 0.3 s"],
  ["/busy", "the server answered 503"],
  ["/nowhere", "the server answered 404"],
];
test.each(WITHOUT_PAGE)("%s: exit code 2 and one sentence", async (path, why) => {
  const { code, out } = await check(url + path, "--timeout", "300ms", "--max-mb", "1", "--for", "1h");
  expect(code).toBe(2);
  expect(out).toContain(`  no page: ${why}`);
  expect(out.trimEnd().split("\n")).toHaveLength(2);
});

test("a file that is too long and a path that is not a file are refused", async () => {
  const long = file("long.txt", "a 1\n".repeat(400_000));
  const { code, out } = await check(long, "--max-mb", "1");
  expect([code, out]).toEqual([2, `${long}\n  no page: more than 1 MiB of text; raise --max-mb to read it\n`]);
  expect((await check(tmpdir())).out).toContain("no page: cannot read");
});

test("- reads standard input", async () => {
  const child = Bun.spawn([process.execPath, main, "check", "-"], {
    stdin: new Blob([page]),
    stdout: "pipe",
  });
  expect(await child.stdout.text()).toStartWith(`-\n${DIALECT}`);
  expect(await child.exited).toBe(0);
});

test("a host that is down gives exit code 2 and one sentence", async () => {
  const { code, out } = await check("http://127.0.0.1:9/metrics");
  expect(code).toBe(2);
  expect(out).toMatch(/no page: cannot reach the server \(\w+\)/);
});

test("an incomplete answer gives exit code 2 and one sentence", async () => {
  const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n";
  const short = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: { data: (socket) => void socket.end(`${head}a 1\n`) },
  });
  const { code, out } = await check(`http://127.0.0.1:${short.port}/metrics`);
  short.stop(true);
  expect(code).toBe(2);
  expect(out).toMatch(/no page: the answer broke off \(\w+\)/);
});

test.each([
  ["/truncated", "cut off"],
  ["/bytes", "bytes that are not UTF-8"],
])("%s is reported as a violation of G01 with its line", async (path, words) => {
  const { code, out } = await check(url + path, "--only", "g01");
  expect(code).toBe(1);
  expect(out).toMatch(new RegExp(`VIOLATED +G01[\\s\\S]* line \\d+: [^\\n]*${words}`));
});

test("a watch finds counters that fall between scrapes, and reports several servers separately", async () => {
  const { code, out, err } = await check(`${url}/falls`, `${url}/metrics`, "--every", "20ms", "--for", "500ms");
  expect(code).toBe(1);
  // During the watch each law is reported once; the final report names it again.
  expect(err.match(/\/falls: violated: G10 {2}a_total = /g)).toHaveLength(1);
  expect(out).toMatch(
    /\/falls: only general laws could be judged [^\n]*\n {2}VIOLATED[\s\S]*\n {2}dialect {3}unknown; \d+ scrapes\n/,
  );
  expect(out).toContain("VIOLATED  G10");
  expect(out).toMatch(/a_total = \d+, must be ≥ its value before = \d+ {2}\[.*\/falls, [\d:.]+ to [\d:.]+\]/);
  const fine = out.slice(out.indexOf(`${url}/metrics\n`));
  expect(fine).toContain("0 violated");
});

/** Starts the launcher in its own process group, as a terminal does, so that Ctrl-C reaches both processes. */
function inGroup(...args: string[]) {
  const child = spawn("node", [bin, "check", ...args], { detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  child.stdout.on("data", (data) => {
    out += data;
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { interrupt: () => process.kill(-child.pid!, "SIGINT"), out: () => out, ended };
}

test("Ctrl-C in a terminal ends a watch with the report so far and its exit code", async () => {
  for (const [path, wanted, words] of [
    [
      "/grows",
      0,
      /^.*\/grows: only general [^\n]*\n {2}dialect .*; \d+ scrapes\n {2}\d+ of 110 laws applicable: \d+ held, 0 violated/,
    ],
    ["/falls", 1, /\/falls: only general [^\n]*\n {2}VIOLATED[\s\S]*violated: .*G10/],
  ] as const) {
    const before = scrapes;
    const child = inGroup(url + path, "--every", "20ms", "--for", "1h");
    await eventually(() => scrapes > before + 3);
    child.interrupt();
    expect(await child.ended).toBe(wanted);
    expect(child.out()).toMatch(words);
  }
});

test("Ctrl-C while the server hangs reports the earlier scrapes after the grace period", async () => {
  left = 3;
  const child = inGroup(`${url}/soon-hangs`, "--every", "20ms", "--for", "1h", "--timeout", "1h");
  await eventually(() => left < 0);
  child.interrupt();
  expect(await child.ended).toBe(0);
  expect(child.out()).toMatch(/; 3 scrapes\n {2}\d+ of 110 laws applicable: \d+ held, 0 violated/);
});

test("a second Ctrl-C ends the watch at once", async () => {
  hanging = 0;
  const child = inGroup(`${url}/hangs`, "--for", "1h", "--timeout", "1h");
  await eventually(() => hanging > 0);
  child.interrupt();
  await Bun.sleep(700);
  child.interrupt();
  expect(await child.ended).toBe(130);
  expect(child.out()).toBe("");
});

test("files are successive scrapes: times from @SECONDS or the files, else one second apart", async () => {
  const [first, second] = [
    file("a.txt", "# TYPE a_total counter\na_total 5\n"),
    file("b.txt", "# TYPE a_total counter\na_total 4\n"),
  ];
  const named = await check(`${first}@10`, `${second}@25.5`, "--only", "G10");
  expect(named.code).toBe(1);
  expect(named.out).toContain(`2 files, from ${first}`);
  expect(named.out).toContain(`[${second}, 10 s to 25.5 s]`);
  for (const path of [first, second]) utimesSync(path, 1_700_000_000, 1_700_000_000);
  expect((await check(first, second, "--only", "G10")).out).toContain(`[${second}, 0 s to 1 s]`);
  utimesSync(second, 1_700_000_060, 1_700_000_060);
  expect((await check(first, second, "--only", "G10")).out).toContain(`[${second}, 22:13:20.000 to 22:14:20.000]`);
});

test("one missing file: the other is judged, and the exit code is 2", async () => {
  const { code, out } = await check(join(folder, "none.txt"), `${recorded}vllm-clean-99-rest1.txt`);
  expect(code).toBe(2);
  expect(out).toContain('none.txt" (ENOENT)');
  expect(out).toContain("0 violated");
});

test("--json and --junit write the report in these formats", async () => {
  const path = file("bad.txt", page.replace('"stop",model_name="m"} 67.0', '"stop",model_name="m"} 68.0'));
  const [json, junit] = [join(folder, "out.json"), join(folder, "out.xml")];
  expect((await check(path, "--json", json, "--junit", junit)).code).toBe(1);
  const { schema, exitCode, targets } = JSON.parse(readFileSync(json, "utf8"));
  expect({ schema, exitCode }).toEqual({ schema: "understudy-check/1", exitCode: 1 });
  const law = targets[0].report.laws.find(({ id }: { id: string }) => id === "V15");
  expect(law).toMatchObject({
    verdict: "violated",
    violationCount: 1,
    violations: [{ left: { value: 165 }, right: { value: 166 } }],
  });
  const xml = readFileSync(junit, "utf8");
  expect(xml.match(/<testcase /g)).toHaveLength(110);
  const failures = xml.match(/<testcase [^>]*name="(\w+)[^>]*><failure/g)!.length;
  expect(Number(/failures="(\d+)"/.exec(xml)![1])).toBe(failures);
  expect(xml).toContain("must be = vllm:request_success_total");
});

test("--require-dialect: exit code 2 for a page that only general laws judged, else 0", async () => {
  const unknown = file("unknown.txt", "# TYPE mine gauge\nmine 1\n");
  const { code, out } = await check(unknown);
  expect(code).toBe(0);
  expect(out).toStartWith(`${unknown}: only general laws could be judged (the dialect of the page is not known)\n`);
  const json = join(folder, "unknown.json");
  expect((await check(unknown, "--require-dialect", "--json", json)).code).toBe(2);
  expect(JSON.parse(readFileSync(json, "utf8")).exitCode).toBe(2);
  expect((await check(file("known.txt", page), "--require-dialect")).code).toBe(0);
});

test("--names: a valid file is applied, an invalid one refused with a reason, at most 1 MiB", async () => {
  const mine = file("mine.txt", "# TYPE mine gauge\nmine 1\n# TYPE my_hits_total counter\nmy_hits_total 7\n");
  const families = { mine: "num_requests_running", my_hits_total: "prefix_cache_hits_total" };
  const names = file("names.json", JSON.stringify({ dialect: "vllm", families }));
  const stuck = await check(mine, "--names", names, "--rest");
  expect(stuck.code).toBe(1);
  expect(stuck.out).toContain("  E  mine = 1, must be = 0, at rest");
  expect((await check(mine, "--rest-gauges", "mine", "--rest")).code).toBe(1);
  const wrong = JSON.stringify({ dialect: "vllm", families: { mine: "num_request_running" } });
  for (const [text, words] of [
    [wrong, 'families: "mine": vllm has no family "num_request_running"'],
    ["{", "is not JSON"],
    [" ".repeat(2 ** 20 + 1), "--names: more than 1 MiB of text"],
  ] as const) {
    const { code, out, err } = await check(mine, "--names", file("wrong.json", text));
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(err).toContain(words);
  }
  expect((await check(mine, "--names", names, "--json", names)).err).toContain("would overwrite the input file");
});

test("times of files only give the order, unless @SECONDS sets them", async () => {
  const at = (ended: number, seconds: number) =>
    file(
      `ended-${ended}.txt`,
      `vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le="+Inf"} ${ended}
vllm:e2e_request_latency_seconds_sum ${seconds}\nvllm:e2e_request_latency_seconds_count ${ended}\n`,
    );
  const [first, second] = [at(10, 50), at(15, 5050)];
  expect((await check(first, second, "--only", "G21")).code).toBe(0);
  expect((await check(`${first}@100`, `${second}@105`, "--only", "G21")).code).toBe(1);
});

test.each([
  [["--every", "1y", "x"], '--every: takes a duration from 10ms to 24h, as in 500ms, 1s or 2m, not "1y"'],
  [["--evry", "1s", "x"], "--evry: unknown flag"],
  [[], "needs a URL, or one or more files"],
  [["--only", "V99", "x"], "--only: takes ids of laws"],
  [["--engine-version", "new", "x"], "--engine-version: takes versions of vLLM, TensorRT-LLM or Triton"],
  [["x.txt", "--for", "10s"], "--for: needs a URL; files are read once"],
  [["http://"], "is not a URL"],
  [["http://x", "--json", "/nowhere/x.json"], 'cannot write "/nowhere/x.json" (ENOENT)'],
  [["x.txt@5", "--json", "x.txt"], "--json x.txt: would overwrite the input file"],
  [["x.txt", "--json", "y", "--junit", "./y"], "--junit ./y: would overwrite the file of --json"],
] as const)("bad flags %j are refused with one line and exit code 2", async (args, words) => {
  const { code, out, err } = await check(...args);
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err.trimEnd().split("\n")).toHaveLength(1);
  expect(err).toContain(words);
});

test("--help names every option", async () => {
  const { code, out } = await check("--help");
  expect(code).toBe(0);
  for (const flag of [
    "--every",
    "--for",
    "--rest",
    "--clean",
    "--json",
    "--junit",
    "--all",
    "--quiet",
    "--engine-version",
    "--max-num-seqs",
    "--[no-]enable-prefix-caching",
  ]) {
    expect(out).toContain(`  ${flag}`);
  }
});
