/**
 * How does a report look? A real run of `understudy load` against `understudy serve`, photographed with Debian's Chromium
 * (`apt-get install chromium`) into docs/load-report.png and docs/load-timeline.png. Not part of CI. `--keep FILE` keeps the page.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "../test/server.ts";

const root = new URL("../", import.meta.url).pathname;
/** What of the page each picture leaves out before what it shows, and its size; pixels. */
const PICTURES = [
  { file: "load-report.png", without: "", size: [1280, 1800] },
  { file: "load-timeline.png", without: "header, .tiles, #latency", size: [1280, 1930] },
] as const;
const BYTES_MOST = 300_000;
/** A batch and a pool that get full now and then, so that there is something to see. */
const SERVER = ["--max-num-seqs", "32", "--max-model-len", "8192", "--num-gpu-blocks-override", "3200"];
const LOAD = [
  ...["--request-rate", "18", "--num-prompts", "400", "--warmup-request-count", "20"],
  ...["--input-len", "900", "--output-len", "160", "--random-range-ratio", "0.8"],
  ...["--goodput", "ttft:200", "tpot:20", "--check-truth"],
];

const chromium = Bun.which("chromium") ?? Bun.which("chromium-browser");
if (chromium === null) {
  console.error("chromium is not on the path (Debian: apt-get install chromium)");
  process.exit(2);
}

async function run(command: readonly string[], cwd: string): Promise<void> {
  const child = Bun.spawn([...command], { cwd, stdout: "ignore", stderr: "pipe" });
  const wrong = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`${command[0]}: ${wrong.trim().split("\n").at(-1)}`);
}

const folder = mkdtempSync(join(tmpdir(), "understudy-report-"));
const page = join(folder, "report.html");
const server = await serve(SERVER);
try {
  const load = ["load", "--url", server.url, ...LOAD, "--html", "report.html"];
  await run([process.execPath, `${root}src/main.ts`, ...load], folder);
} finally {
  await server.stop();
}
const flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"];
// Chromium refuses its sandbox to root.
if (process.getuid?.() === 0) flags.push("--no-sandbox");
for (const { file, without, size } of PICTURES) {
  const picture = `${root}docs/${file}`;
  const part = join(folder, "part.html");
  const hidden = without === "" ? "" : `<style>${without} { display: none }</style>`;
  writeFileSync(part, readFileSync(page, "utf8").replace("</head>", `${hidden}</head>`));
  await run(
    [chromium, ...flags, `--window-size=${size.join(",")}`, `--screenshot=${picture}`, `file://${part}`],
    folder,
  );
  const bytes = statSync(picture).size;
  if (bytes > BYTES_MOST) throw new Error(`docs/${file} has ${bytes} bytes, more than ${BYTES_MOST}`);
  console.log(`docs/${file}: ${bytes} bytes`);
}
const at = process.argv.indexOf("--keep");
if (at >= 0) copyFileSync(page, process.argv[at + 1] ?? "report.html");
rmSync(folder, { recursive: true });
