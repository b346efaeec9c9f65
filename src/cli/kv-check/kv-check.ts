/** `understudy kv-check`: checks the KV events of publishers, prints the result as a table, and writes the reports. */
import { epochUsOf, WallClock } from "../../base/clock.ts";
import { exitCode, junit } from "../../tools/check/report.ts";
import { type CheckedPublisher, kvJson, kvTable } from "../../tools/kv-check/report.ts";
import { isKvEndpoint, KvWatch, type KvWatchOptions } from "../../tools/kv-check/watch.ts";
import { TraceError } from "../../workloads/trace.ts";
import { onInterrupt } from "../interrupt.ts";
import { takeOptions } from "../options/take-options.ts";
import { OutFile, overwritten } from "../out-file.ts";
import { printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { TerminalLine } from "../terminal-line.ts";
import { type KvCheckValues, kvCheckHelp, kvCheckOptions } from "./kv-check-options.ts";

const refuse = refuser("kv-check");
const DEFAULT_TIMEOUT_S = 10;

export async function runKvCheck(argv: readonly string[]): Promise<void> {
  const taken = takeOptions(kvCheckOptions, argv);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(kvCheckHelp());
  const flag = rest.find((word) => word.startsWith("-"));
  if (flag !== undefined) return refuse(`${flag}: unknown flag (understudy kv-check --help lists the options)`);
  if (rest.length === 0) return refuse("needs an endpoint, as in tcp://127.0.0.1:5557 (understudy kv-check --help)");
  const wrong = rest.find((word) => !isKvEndpoint(word));
  if (wrong !== undefined) return refuse(`"${wrong}": must be tcp://HOST:PORT or ipc://PATH`);
  const replays = values.replay?.length ?? rest.length;
  if (replays !== rest.length)
    return refuse(`--replay: needs an address per endpoint, ${rest.length} and not ${replays}`);
  const why = overwritten([], { "--json": values.json, "--junit": values.junit });
  if (why !== undefined) return refuse(why);
  try {
    await check(rest, values);
  } catch (failure) {
    if (!(failure instanceof TraceError)) throw failure;
    refuse(failure.message);
  }
}

async function check(endpoints: readonly string[], values: KvCheckValues): Promise<void> {
  const out = {
    json: values.json === undefined ? null : new OutFile(values.json),
    junit: values.junit === undefined ? null : new OutFile(values.junit),
  };
  const publishers = await watched(endpoints, values);
  const text = kvTable(publishers, { all: values.all ?? false, quiet: values.quiet ?? false });
  if (text !== "") printText(text);
  out.json?.end(kvJson(publishers));
  out.junit?.end(junit(publishers));
  process.exitCode = exitCode(publishers);
}

async function watched(endpoints: readonly string[], values: KvCheckValues): Promise<CheckedPublisher[]> {
  const clock = new WallClock();
  let stopped = false;
  // Keep the listener until the program ends, because the launcher may pass on its copy of a Ctrl-C while the report is written.
  onInterrupt(() => {
    stopped = true;
  });
  const line = new TerminalLine();
  const counts = endpoints.map(() => 0);
  const publishers = await Promise.all(
    endpoints.map(async (endpoint, at) => {
      const watch = new KvWatch(clock, {
        ...watchOptions(endpoint, at, values),
        epochUsOf,
        stopped: () => stopped,
        onProgress: (batches) => {
          counts[at] = batches;
          const sum = counts.reduce((all, count) => all + count, 0);
          if (!values.quiet) line.show(`${sum} batches (Ctrl-C: report now)`);
        },
      });
      return { name: endpoint, report: await watch.run() };
    }),
  );
  line.clear();
  clock.close();
  return publishers;
}

type WatchedPart = Omit<KvWatchOptions, "epochUsOf" | "stopped" | "onProgress">;

const watchOptions = (endpoint: string, at: number, values: KvCheckValues): WatchedPart => ({
  ...{ endpoint, name: endpoint, replayEndpoint: values.replay?.[at] ?? null, metricsUrl: withPath(values.metrics) },
  ...{ topic: values.topic ?? "", timeoutS: values.timeout ?? DEFAULT_TIMEOUT_S },
  ...{ forS: values.for ?? null, batches: values.batches ?? null },
  ...{ fromStart: values["from-start"] ?? false, clean: values.clean ?? false },
  ...(values.late === undefined ? {} : { lateS: values.late }),
  ...(values.only === undefined ? {} : { only: values.only }),
  ...(values["num-gpu-blocks"] === undefined ? {} : { numGpuBlocks: values["num-gpu-blocks"] }),
  ...(values["hash-seed"] === undefined ? {} : { hashSeed: values["hash-seed"] }),
  ...(values["prefix-caching-hash-algo"] === undefined ? {} : { hashAlgorithm: values["prefix-caching-hash-algo"] }),
  loraPaths: Object.fromEntries(
    (values["lora-paths"] ?? []).map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]),
  ),
});

/** Returns the address of a metrics page. Adds the path /metrics if it has no path. */
function withPath(written: string | undefined): string | null {
  if (written === undefined) return null;
  const url = new URL(written);
  if (url.pathname === "/" && url.search === "") url.pathname = "/metrics";
  return url.href;
}
