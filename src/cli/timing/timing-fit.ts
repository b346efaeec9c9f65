/**
 * `understudy timing fit`: fits a linear timing to benchmark results, then replays the results with the timing to report its
 * error.
 */
import { statSync } from "node:fs";
import wasm from "../../../build/core.wasm" with { type: "file" };
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { fileAtMost, NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { UserError } from "../../base/start-errors.ts";
import { CoreTooLarge } from "../../engine/wasm/core.ts";
import { COEFFICIENTS, type Coefficient } from "../../tools/fit/equations.ts";
import { readRuns } from "../../tools/fit/read.ts";
import type { FitRun } from "../../tools/fit/run.ts";
import { TraceError } from "../../workloads/trace.ts";
import { parseFlags } from "../options/flags.ts";
import { inRole } from "../options/given.ts";
import { takeOptions } from "../options/take-options.ts";
import { printError, printJson, printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { resolveFlags, takeFlag } from "../serve/resolve.ts";
import { type FitResult, fitRuns, type Linear, type RunReplayer, replay, type Times } from "./fit-replay.ts";
import { timingOptions } from "./timing-options.ts";
import { textTable } from "./timing-show.ts";

const refuse = refuser("timing fit");
/** Maximum size of a file in MiB, enough for some ten million tokens with their times. */
const MIB_MOST = 256;
const SCHEMA = "understudy-timing-fit/1";
export async function runTimingFit(argv: readonly string[]): Promise<void> {
  try {
    await fit(argv);
  } catch (failure) {
    if (failure instanceof UserError) return refuse(failure.fullMessage);
    if (!(failure instanceof TraceError || failure instanceof CoreTooLarge)) throw failure;
    refuse(failure.message);
  }
}

/** Reads the runs of a result file, or of a folder of `understudy proxy --record`. */
async function runsOf(file: string, config: ServeConfig): Promise<FitRun[]> {
  if (!statSync(file, { throwIfNoEntry: false })?.isDirectory()) return readRuns(contentOf(file), file);
  const { folderRun } = await import("./fit-folder.ts");
  return [await folderRun(file, config)];
}

async function fit(argv: readonly string[]): Promise<void> {
  const own = takeOptions(timingOptions, argv);
  if ("error" in own) return refuse(own.error);
  const role = takeFlag(own.rest, "role", process.env.UNDERSTUDY_ROLE).value;
  const flags = parseFlags(own.rest, inRole({ name: "timing", own: Object.keys(timingOptions) }, role));
  if ("error" in flags) return refuse(flags.error);
  const files = flags.positional;
  if (files.length === 0) return refuse("needs one or more results of a benchmark (understudy timing --help)");
  const resolved = resolveFlags({ ...flags, positional: [] }, process.env, (path) =>
    textAtMost(path, NAMED_FILE_BYTES_MOST),
  );
  if ("error" in resolved) return refuse(resolved.error);
  const { engine } = resolved.config;

  const runs = (await Promise.all(files.map((file) => runsOf(file, resolved.config)))).flat();
  const module = await WebAssembly.compile(await Bun.file(wasm).arrayBuffer());
  const replayed: RunReplayer = (one, timing) => replay(one, { ...engine, timing }, module);
  const fitted = fitRuns(runs, engine.maxNumScheduledTokens, replayed);
  if (fitted === null) return refuse(`${files.join(", ")}: no request has two tokens, so step times are unknown`);
  const text = textOf(fitted.timing);
  const results = runs.map((one) => ({ run: one, replayed: replayed(one, fitted.timing) }));
  if (own.values.json) return printJson(asJson(text, fitted, results), 2);
  printError(report(fitted, results));
  printText(text);
}

function contentOf(file: string): string {
  try {
    const { bytes } = fileAtMost(file, MIB_MOST * 2 ** 20);
    if (bytes === null) throw new TraceError(`"${file}": is larger than ${MIB_MOST} MiB`);
    return new TextDecoder().decode(bytes);
  } catch (error) {
    if (error instanceof TraceError) throw error;
    throw new TraceError(`"${file}": cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function textOf({ baseUs, prefillUs, decodeUs, requestOverheadUs }: Linear): string {
  // Print without an exponent and with at most nine decimals (picoseconds), because the parser of --timing accepts no other
  // form.
  const ms = (us: number) => `${(us / 1000).toFixed(9).replace(/\.?0+$/, "")}ms`;
  return `linear:base=${ms(baseUs)},prefill=${ms(prefillUs)},decode=${ms(decodeUs)},overhead=${ms(requestOverheadUs ?? 0)}`;
}

type Results = readonly { readonly run: FitRun; readonly replayed: Times }[];

const WHY: Readonly<Record<Coefficient, string>> = {
  base: "base is 0: it cannot be separated from decode, because all steps had the same number of sequences",
  prefill:
    "prefill is 0: it cannot be determined, because no decode shared a step with a prompt, and prompts that were alone had the same length",
  decode:
    "decode is 0: it cannot be separated from base, because all steps had the same number of sequences. Add runs of other concurrency",
  overhead:
    "overhead is 0: it cannot be separated from prefill, because all prompts that were alone had the same length",
};

function report({ solution, timing, fromReplays }: FitResult, results: Results): string {
  const { us, open, meanError, p90Error } = solution;
  const ms = (value: number) => (value / 1000).toFixed(2);
  const share = (value: number) => `${(100 * value).toFixed(1)} %`;
  const versus = (measured: number, found: number) => [ms(measured), ms(found), share(Math.abs(found / measured - 1))];
  const head = ["run", "requests", "TTFT, ms", "replayed", "error", "TPOT, ms", "replayed", "error"];
  const rows = results.map(({ run: one, replayed }) => [
    `${one.source} (${one.format})`,
    String(one.completed),
    ...versus(one.ttftUs, replayed.ttftUs),
    ...versus(one.tpotUs, replayed.tpotUs),
  ]);
  const told = (name: Coefficient) => !fromReplays.includes(name);
  const zero = COEFFICIENTS.filter((name) => us[name] === 0 && !open.includes(name) && told(name));
  // Each run has two means, TTFT and TPOT. If there are not more means than coefficients, a fit can match all means exactly, so
  // its errors prove nothing.
  const tooFew = !told("base") && 2 * results.length <= COEFFICIENTS.length;
  return [
    textTable([head, ...rows]),
    "",
    told("base")
      ? `step times: mean error ${share(meanError)}, 90 % within ${share(p90Error)}`
      : "all coefficients are from replays, because the results have only means; --save-detailed or aiperf's profile_export.jsonl has more",
    ...(tooFew
      ? [
          "there are as many coefficients as means, so these errors prove nothing. Add runs of other concurrency and lengths",
        ]
      : []),
    ...open.filter(told).map((name) => WHY[name]),
    ...zero.map((name) => `${name} is 0: the best fit was negative`),
    ...(told("overhead") || !told("base")
      ? []
      : [`overhead (${ms(timing.requestOverheadUs ?? 0)} ms) is from replays, because no request was alone`]),
  ].join("\n");
}

function asJson(text: string, { timing, solution, fromReplays }: FitResult, results: Results) {
  const { open, meanError, p90Error } = solution;
  const versus = (measured: number, replayed: number) => ({ measured: measured / 1000, replayed: replayed / 1000 });
  return {
    schema: SCHEMA,
    timing: text,
    step: timing,
    undetermined: open.filter((name) => !fromReplays.includes(name)),
    from_replays: fromReplays,
    step_error: fromReplays.includes("base") ? null : { mean: meanError, p90: p90Error },
    runs: results.map(({ run: one, replayed }) => ({
      source: one.source,
      format: one.format,
      requests: one.completed,
      ttft_ms: versus(one.ttftUs, replayed.ttftUs),
      tpot_ms: versus(one.tpotUs, replayed.tpotUs),
    })),
  };
}
