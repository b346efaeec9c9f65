/** `understudy truth`: prints the true times of requests from a server or a file, and compares them with measured times. */
import { WallClock } from "../../base/clock.ts";
import { type MeasuredUnit, readMeasured } from "../../tools/load/measured-file.ts";
import { columns } from "../../tools/load/table.ts";
import { TRUE_METRICS, type TrueTimes, trueTimes } from "../../tools/load/true-times.ts";
import { linesOfFile, ServerTruthSource, type TruthPages } from "../../tools/load/truth.ts";
import type { Distribution } from "../../tools/report/result.ts";
import { TraceError } from "../../workloads/trace.ts";
import { takeOptions } from "../options/take-options.ts";
import { printJson, printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { type TruthValues, truthHelp, truthOptions } from "./truth-options.ts";

const refuse = refuser("truth");
const isUrl = (word: string): boolean => /^https?:\/\//i.test(word);

export async function runTruth(argv: readonly string[]): Promise<void> {
  const taken = takeOptions(truthOptions, argv);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(truthHelp());
  const flag = rest.find((word) => word.startsWith("-") && word !== "-");
  if (flag !== undefined) return refuse(`${flag}: unknown flag (understudy truth --help lists the options)`);
  const [source, ...more] = rest;
  if (source === undefined || more.length > 0) return refuse("takes one URL or one file (understudy truth --help)");
  if (isUrl(source) && !URL.canParse(source)) return refuse(`"${source}": is not a URL`);
  if (!isUrl(source) && values.since !== undefined) return refuse("--since: a file has no cursor; give a URL");
  try {
    await show(source, values);
  } catch (failure) {
    if (!(failure instanceof TraceError)) throw failure;
    refuse(failure.message);
  }
}

async function show(source: string, values: TruthValues): Promise<void> {
  const unit: MeasuredUnit = values.unit ?? "ms";
  const measured = values.compare === undefined ? null : readMeasured(values.compare, unit);
  const pages = isUrl(source) ? await asked(source, values) : { lines: linesOfFile(source), next: null, missed: 0 };
  if ("why" in pages) return refuse(`${source}: ${pages.why}; is it an Understudy server?`);
  const truth = trueTimes(pages.lines, measured);
  if (values.json) printJson({ schema: "understudy-truth/1", ...truth, next: pages.next, missed: pages.missed }, 2);
  else printText([...tableOf(truth), ...endOf(pages)].join("\n"));
  if (truth.requests === 0 || truth.compared?.requests === 0) process.exitCode = 1;
}

async function asked(url: string, values: TruthValues): Promise<TruthPages | { readonly why: string }> {
  const key = values["api-key"];
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const clock = new WallClock();
  try {
    const base = url.replace(/\/(understudy\/requests.*)?$/, "");
    return await new ServerTruthSource(base, { headers, tls: { rejectUnauthorized: true } }, clock).since(
      values.since ?? null,
    );
  } finally {
    clock.close();
  }
}

const NAMES = { ttft: "TTFT", itl: "ITL", tpot: "TPOT", e2e: "E2E" } as const;

function tableOf({ requests, withoutToken, times, compared }: TrueTimes): string[] {
  const rows = (title: string, of: Partial<Record<keyof typeof NAMES, Distribution>>, quantiles: readonly number[]) =>
    columns([
      [title, "count", "mean", ...quantiles.map((q) => `p${q}`)],
      ...TRUE_METRICS.flatMap((name) => {
        const metric = of[name];
        if (metric === undefined) return [];
        const cells = [metric.mean, ...quantiles.map((q) => metric[`p${q}`])];
        return [
          [NAMES[name], String(metric.count), ...cells.map((ms) => (typeof ms === "number" ? ms.toFixed(3) : "-"))],
        ];
      }),
    ]);
  const none = withoutToken > 0 ? `; ${withoutToken} gave no token` : "";
  const lines = [...rows("true times, ms", times, [50, 90, 99]), `of ${requests} generations that gave tokens${none}`];
  if (compared === null) return lines;
  lines.push("", ...rows("measured minus true, ms", compared.errors, [1, 50, 99]));
  lines.push(`of ${compared.requests} requests in both; ${compared.unknown} of the file are not in the truth`);
  return lines;
}

function endOf({ next, missed }: { readonly next: string | null; readonly missed: number }): string[] {
  const lost = missed > 0 ? [`${missed} rows were dropped before they were read; --truth-requests keeps more`] : [];
  return next === null ? lost : [...lost, `to read only newer requests next time: --since ${next}`];
}
