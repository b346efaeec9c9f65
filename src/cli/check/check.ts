/**
 * `understudy check`: scrapes servers or reads files, applies the laws to their metrics, prints the result as a table, and
 * writes the reports.
 */
import { statSync } from "node:fs";
import { WallClock } from "../../base/clock.ts";
import { fileAtMost } from "../../base/read-at-most.ts";
import { Checker } from "../../tools/check/checker.ts";
import type { Parameters } from "../../tools/check/pages/case.ts";
import { type NameMap, readNameMap } from "../../tools/check/pages/name-map.ts";
import { DEFAULT_MAX_BYTES } from "../../tools/check/pages/parse.ts";
import {
  type CheckedTarget,
  checkTable,
  comparison,
  exitCode,
  json,
  junit,
  shortly,
} from "../../tools/check/report.ts";
import type { CheckOptions, Report } from "../../tools/check/verdicts.ts";
import { watch } from "../../tools/check/watch.ts";
import { TraceError } from "../../workloads/trace.ts";
import { onInterrupt } from "../interrupt.ts";
import { takeOptions } from "../options/take-options.ts";
import { OutFile, overwritten } from "../out-file.ts";
import { printErrorLine, printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { TerminalLine } from "../terminal-line.ts";
import { type CheckValues, checkHelp, checkOptions } from "./check-options.ts";

const refuse = refuser("check");
const DEFAULT_EVERY_S = 1;
const DEFAULT_TIMEOUT_S = 10;
const ACCEPT = {
  text: "text/plain;version=0.0.4,*/*;q=0.1",
  openmetrics: "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
};

export async function runCheck(argv: readonly string[]): Promise<void> {
  const taken = takeOptions(checkOptions, argv);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(checkHelp());
  const flag = rest.find((word) => word.startsWith("-") && word !== "-");
  if (flag !== undefined) return refuse(`${flag}: unknown flag (understudy check --help lists the options)`);
  if (rest.length === 0) return refuse("needs a URL, or one or more files (understudy check --help)");
  const urls = rest.filter(isUrl);
  const files = rest.filter((word) => !isUrl(word));
  for (const url of urls) if (!URL.canParse(url)) return refuse(`"${url}": is not a URL`);
  if (urls.length === 0 && values.for !== undefined) return refuse("--for: needs a URL; files are read once");
  const inputs = files.flatMap((word) => [word, word.replace(/@[^@]*$/, "")]);
  const why = overwritten(values.names === undefined ? inputs : [...inputs, values.names], {
    "--json": values.json,
    "--junit": values.junit,
  });
  if (why !== undefined) return refuse(why);
  try {
    await check(urls.map(withPath), files, values);
  } catch (failure) {
    if (!(failure instanceof TraceError)) throw failure;
    refuse(failure.message);
  }
}

async function check(urls: readonly string[], files: readonly string[], values: CheckValues): Promise<void> {
  const out = {
    json: values.json === undefined ? null : new OutFile(values.json),
    junit: values.junit === undefined ? null : new OutFile(values.junit),
  };
  const options = optionsOf(values);
  const demands = { requireDialect: values["require-dialect"] ?? false };
  const targets = [...(await scraped(urls, values, options)), ...read(files, values, options)];
  const text = checkTable(targets, { all: values.all ?? false, quiet: values.quiet ?? false });
  if (text !== "") printText(text);
  out.json?.end(json(targets, demands));
  out.junit?.end(junit(targets, demands));
  process.exitCode = exitCode(targets, demands);
}

const isUrl = (word: string): boolean => /^https?:\/\//i.test(word);

/** Returns the URL. Adds the path /metrics if the URL has no path. */
function withPath(written: string): string {
  const url = new URL(written);
  if (url.pathname === "/" && url.search === "") url.pathname = "/metrics";
  return url.href;
}

function withoutPassword(url: string): string {
  const shown = new URL(url);
  shown.username = "";
  shown.password = "";
  return shown.href;
}

function optionsOf(values: CheckValues): CheckOptions {
  const parameters: Record<string, unknown> = {};
  for (const [name, row] of Object.entries(checkOptions)) {
    const value = values[name as keyof CheckValues];
    if (row.group !== "Flags of the server" || value === undefined) continue;
    parameters[name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())] = value;
  }
  return {
    parameters: parameters as Parameters,
    clean: values.clean ?? false,
    ...(values.only === undefined ? {} : { only: values.only }),
    ...(values.names === undefined ? {} : { names: readNames(values.names) }),
    ...(values["rest-gauges"] === undefined ? {} : { restGauges: values["rest-gauges"] }),
    ...(values["engine-version"] === undefined ? {} : { engineVersions: values["engine-version"] }),
  };
}

/** Maximum size in bytes of the file of --names, which needs only a few names. */
const NAMES_MAX_BYTES = 1024 * 1024;

/**
 * Reads the JSON file of `--names`. Its keys are names of metrics that a law has, and each value is the name that the checked
 * page uses instead. Throws a `TraceError` if the file cannot be read or has another form.
 */
function readNames(path: string): NameMap {
  const { bytes, why } = readFile(path, NAMES_MAX_BYTES);
  if (bytes === null) throw new TraceError(`--names: ${why.replace("; raise --max-mb to read it", "")}`);
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(bytes));
  } catch (failure) {
    throw new TraceError(`--names ${path}: is not JSON (${failure instanceof Error ? failure.message : failure})`);
  }
  const names = readNameMap(json);
  if (typeof names === "string") throw new TraceError(`--names ${path}: ${names}`);
  return names;
}

const maxBytesOf = (values: CheckValues): number =>
  values["max-mb"] === undefined ? DEFAULT_MAX_BYTES : Math.round(values["max-mb"] * 2 ** 20);

async function scraped(urls: readonly string[], values: CheckValues, options: CheckOptions): Promise<CheckedTarget[]> {
  if (urls.length === 0) return [];
  const clock = new WallClock();
  let stopped = false;
  // Keep the listener until the program ends, because the launcher may pass on its copy of a Ctrl-C while the report is
  // written.
  onInterrupt(() => {
    stopped = true;
  });
  const line = new StatusLine(values.quiet ?? false);
  const done = urls.map(() => 0);
  const targets = await Promise.all(
    urls.map(async (url, i): Promise<CheckedTarget> => {
      const checker = new Checker(options);
      const name = withoutPassword(url);
      await watch(checker, clock, {
        url,
        name,
        everyS: values.every ?? DEFAULT_EVERY_S,
        forS: values.for ?? 0,
        timeoutS: values.timeout ?? DEFAULT_TIMEOUT_S,
        maxBytes: maxBytesOf(values),
        accept: values.openmetrics ? ACCEPT.openmetrics : ACCEPT.text,
        tritonUrl: values.triton?.replace(/\/+$/, "") ?? null,
        rest: values.rest ?? false,
        stopped: () => stopped,
        onScrape: (scrapes, of) => {
          done[i] = scrapes;
          if (of < 2) return;
          line.found(name, checker.report());
          line.progress(Math.min(...done), of, values.every ?? DEFAULT_EVERY_S);
        },
      });
      return { name, report: checker.report() };
    }),
  );
  line.end();
  clock.close();
  return targets;
}

/**
 * Prints progress and new violations on standard error during a watch. The report on standard output lists the violations
 * again.
 */
class StatusLine {
  /** Keys of the violations that were already printed. */
  readonly #printed = new Set<string>();
  readonly #line = new TerminalLine();

  constructor(readonly quiet: boolean) {}

  /** Prints each violated law of a target once, when its first violation is found. */
  found(name: string, { violated }: Report): void {
    if (this.quiet) return;
    for (const law of violated) {
      const key = `${name} ${law.id}`;
      if (this.#printed.has(key)) continue;
      this.#printed.add(key);
      this.end();
      printErrorLine(`${name}: violated: ${shortly(law)}  ${comparison(law.violations[0]!)}`);
    }
  }

  progress(done: number, of: number, everyS: number): void {
    if (this.quiet) return;
    const left = Math.ceil((of - done) * everyS);
    this.#line.show(`${done} of ${of} scrapes, ${left} s left (Ctrl-C: report now)`);
  }

  /** Clears the line that shows the progress. */
  end(): void {
    this.#line.clear();
  }
}

/** Reads the files and checks them as successive scrapes of one server. */
function read(files: readonly string[], values: CheckValues, options: CheckOptions): CheckedTarget[] {
  if (files.length === 0) return [];
  const checker = new Checker(options);
  const maxBytes = maxBytesOf(values);
  const all = files.map((written) => readFile(written, maxBytes));
  const rising = all.every(({ atS }, i) => i === 0 || atS > all[i - 1]!.atS);
  all.forEach(({ path, atS, isTimed, bytes, why }, i) => {
    const when = rising ? atS : i;
    const rest = (values.rest ?? false) && i === all.length - 1;
    if (bytes === null) checker.unreadable(path, when, why);
    else checker.add({ text: bytes, source: path, atS: when, rest, maxBytes }, isTimed && rising);
  });
  const [first] = all;
  return [
    { name: all.length === 1 ? first!.path : `${all.length} files, from ${first!.path}`, report: checker.report() },
  ];
}

interface FileRead {
  readonly path: string;
  readonly atS: number;
  /** True if the user gave the time of the scrape. The time of a file is less reliable, because a copied file has a new time. */
  readonly isTimed: boolean;
  readonly bytes: Uint8Array | null;
  readonly why: string;
}

/**
 * Reads `FILE`, `FILE@SECONDS` or, for `-`, standard input. If a file is named `FILE@SECONDS`, reads that file. Reads at most
 * `maxBytes` + 1 bytes.
 */
function readFile(written: string, maxBytes: number): FileRead {
  const [, named, seconds] = /^(.*)@(\d+(?:\.\d+)?)$/.exec(written) ?? [];
  const path = named !== undefined && !exists(written) ? named : written;
  try {
    const { bytes, mtimeMs } = fileAtMost(path === "-" ? "/dev/stdin" : path, maxBytes);
    const isTimed = path !== written;
    const atS = isTimed ? Number(seconds) : mtimeMs / 1000;
    const why = bytes === null ? `more than ${maxBytes / 2 ** 20} MiB of text; raise --max-mb to read it` : "";
    return { path, atS, isTimed, bytes, why };
  } catch (failure) {
    const why = `cannot read "${path}" (${(failure as { code?: string }).code ?? failure})`;
    return { path, atS: 0, isTimed: false, bytes: null, why };
  }
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
