/**
 * Takes the pictures of the documentation from one real run of `understudy serve`, `load` and `check`. Needs Debian's Chromium
 * (`apt-get install chromium`). CI does not run this script. docs/at-work.png, for the README, shows a terminal with part of
 * the output, next to the report. docs/load-report.png and docs/load-timeline.png are for docs/reference/load.md. `--keep FILE`
 * keeps the report.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "../test/server.ts";
import { chromium } from "../test/site/chromium.ts";
import { terminalPage } from "./terminal-page.ts";

const root = new URL("../", import.meta.url).pathname;
interface Picture {
  readonly file: string;
  /** CSS selector of the parts of the report page that are hidden in the picture. */
  readonly without: string;
  /** Width and height in pixels of the page. */
  readonly size: readonly [number, number];
  /** Pixels of the picture per pixel of the page, in each direction. */
  readonly scale: number;
}
const PICTURES: readonly Picture[] = [
  { file: "load-report.png", without: "", size: [1280, 1800], scale: 1 },
  { file: "load-timeline.png", without: "header, .tiles, #latency", size: [1280, 1930], scale: 1 },
];
/**
 * Settings for the report in the README's picture. It shows only the timeline, in a narrow page, so that its text is readable.
 */
const BESIDE = {
  file: "beside.png",
  without: "header, h2, section:not(:has([data-plot=waterfall]))",
  size: [960, 1065],
  scale: 1,
} as const;
const AT_WORK = { file: "at-work.png", size: [1440, 732], scale: 1.2 } as const;
const BYTES_MOST = 300_000;
/** Options of the server whose batch and pool fill up from time to time, so that the charts show full ones. */
const SERVER = ["--max-num-seqs", "32", "--max-model-len", "8192", "--num-gpu-blocks-override", "3200"];
const LOAD = [
  ...["--request-rate", "18", "--num-prompts", "400", "--warmup-request-count", "20"],
  ...["--input-len", "900", "--output-len", "160", "--random-range-ratio", "0.8"],
  ...["--goodput", "ttft:200", "tpot:20", "--check-truth"],
];
/** Matches the lines of the output of `load` that fit into the picture. */
const SHOWN_LOAD =
  /^(understudy, ms|(TTFT|E2EL)( from send| {2})|ITL|TPOT|output|goodput|measured minus true|gaps|of \d+)/;
/** Seconds from the start of `load` until the metrics are read. The queue is full at that time. */
const READ_METRICS_AFTER_S = 20;
const SHOWN_METRICS = /^vllm:(num_requests_(running|waiting)|kv_cache_usage_perc)\{/;

if (chromium === null) {
  console.error("chromium is not on the path (Debian: apt-get install chromium)");
  process.exit(2);
}

/** Runs the command and returns its standard output. Throws if the command fails. */
async function run(command: readonly string[], cwd: string): Promise<string> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe" });
  const [out, wrong] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(`${command[0]}: ${wrong.trim().split("\n").at(-1)}`);
  return out;
}

const flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"];
// Chromium cannot use its sandbox as root.
if (process.getuid?.() === 0) flags.push("--no-sandbox");

async function photograph(
  page: string,
  picture: string,
  [width, height]: readonly number[],
  scale: number,
): Promise<void> {
  const shape = [`--window-size=${width},${height}`, `--force-device-scale-factor=${scale}`];
  await run([chromium!, ...flags, ...shape, `--screenshot=${picture}`, `file://${page}`], folder);
}

async function photographReport({ without, size, scale }: Omit<Picture, "file">, picture: string): Promise<void> {
  const part = join(folder, "part.html");
  const hidden = without === "" ? "" : `<style>${without} { display: none }</style>`;
  writeFileSync(part, readFileSync(report, "utf8").replace("</head>", `${hidden}</head>`));
  await photograph(part, picture, size, scale);
}

function keep(file: string): void {
  const bytes = statSync(`${root}docs/${file}`).size;
  if (bytes > BYTES_MOST) throw new Error(`docs/${file} has ${bytes} bytes, more than ${BYTES_MOST}`);
  console.log(`docs/${file}: ${bytes} bytes`);
}

const folder = mkdtempSync(join(tmpdir(), "understudy-pictures-"));
const report = join(folder, "report.html");
const understudy = (args: readonly string[]) => run([process.execPath, `${root}src/main.ts`, ...args], folder);
const server = await serve(SERVER);
const banner = server.output();
let load: string;
let metrics: string;
let check: string;
try {
  const loading = understudy(["load", "--url", server.url, ...LOAD, "--html", "report.html"]);
  await Bun.sleep(READ_METRICS_AFTER_S * 1000);
  metrics = await (await fetch(`${server.url}/metrics`)).text();
  load = await loading;
  check = await understudy(["check", server.url, "--every", "1s", "--for", "3s"]);
} finally {
  await server.stop();
}
for (const { file, ...picture } of PICTURES) {
  await photographReport(picture, `${root}docs/${file}`);
  keep(file);
}
await photographReport(BESIDE, join(folder, BESIDE.file));
const linesOf = (text: string) => text.replaceAll(server.url, "http://127.0.0.1:8000").trimEnd().split("\n");
const page = terminalPage(
  [
    {
      command: `understudy serve ${SERVER.join(" ")} &`,
      output: linesOf(banner).filter((line) => /^(understudy| {2}(KV|timing|listening))/.test(line)),
    },
    { command: `understudy load ${LOAD.join(" ")} --html report.html &`, output: [] },
    {
      command: "curl -s http://127.0.0.1:8000/metrics | grep -E '(running|waiting|usage_perc)\\{'",
      output: metrics.split("\n").filter((line) => SHOWN_METRICS.test(line)),
    },
    { command: "fg", output: linesOf(load).filter((line) => SHOWN_LOAD.test(line)) },
    { command: "understudy check http://127.0.0.1:8000 --every 1s --for 3s", output: linesOf(check) },
  ],
  BESIDE.file,
);
writeFileSync(join(folder, "terminal.html"), page);
await photograph(join(folder, "terminal.html"), `${root}docs/${AT_WORK.file}`, AT_WORK.size, AT_WORK.scale);
keep(AT_WORK.file);
const at = process.argv.indexOf("--keep");
if (at >= 0) copyFileSync(report, process.argv[at + 1] ?? "report.html");
rmSync(folder, { recursive: true });
