/** Runs a load test without terminal and files: asks the server, warms up, measures, and makes the result. */
import type { Cancel, Clock } from "../../base/clock.ts";
import { epochSeconds } from "../../base/clock.ts";
import { randomHex } from "../../base/random.ts";
import { spanText } from "../../workloads/timestamps.ts";
import { TraceError } from "../../workloads/trace.ts";
import type { Result } from "../report/result.ts";
import { arrivals } from "./arrivals.ts";
import { Client, type ClientOptions, type LoadClient } from "./clients/client.ts";
import { dataset, type LoadDataset, type RowFacts } from "./datasets/index.ts";
import { LiveLine } from "./live.ts";
import { greatest, isGoodAnswer } from "./measures.ts";
import { DIALECTS, generates, isTriton } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";
import { type RunFacts, resultOf } from "./result.ts";
import { type LoadLoop, LoadRun, type Phase, type PhaseOutcome } from "./run.ts";
import { type FetchOptions, ServerQueries } from "./server.ts";
import { ServerMetrics } from "./server-metrics.ts";
import type { Settings } from "./settings.ts";
import { compareWithTruth, joinIdOf, ServerTruthSource, TruthLogSource, type TruthSource } from "./truth.ts";
import { Turns } from "./turns.ts";
import { type Evidence, warningsOf } from "./warnings.ts";

/** Number of requests if nothing else ends the run. */
const OPEN_COUNT = 1000;
const LIVE_US = 500_000;
/** Microseconds between two reads of a slow reader. */
const SLOW_PAUSE_US = 500_000;

export interface LoadDeps {
  readonly clock: Clock;
  /** Called every half second with the status line. Null if it is not needed. */
  readonly live: ((line: string) => void) | null;
}

export interface LoadOutcome {
  readonly result: Result;
  readonly records: readonly RequestRecord[];
  /** Reason if nothing could be measured, else null. */
  readonly nothing: string | null;
  /** Lines about the dataset's rows: the time that they span, and how many were skipped, with reasons. */
  readonly rows: readonly string[];
}

/** Returns base URL and options for calls in addition to the load. */
function sideCalls({ url, headers, insecure, ca }: Settings): { base: string; fetchOptions: FetchOptions } {
  return {
    base: url.origin + url.pathname.replace(/\/$/, ""),
    fetchOptions: { headers, tls: { rejectUnauthorized: !insecure, ...(ca !== null && { ca }) } },
  };
}

/**
 * Returns the settings with the model's name, asking the server if the user did not name it. Throws a TraceError if the server
 * names none or cannot be reached.
 */
export async function withModel(settings: Settings, clock: Clock): Promise<Settings & { readonly model: string }> {
  const { base, fetchOptions } = sideCalls(settings);
  const server = new ServerQueries(base, fetchOptions, clock);
  return { ...settings, model: await server.model(settings.dialect, settings.model) };
}

export class Load {
  #run: LoadRun | null = null;
  #stopped = false;

  constructor(
    private readonly settings: Settings & { readonly model: string },
    private readonly deps: LoadDeps,
  ) {}

  /** Ends the run now. The result has what was measured so far. */
  stop(): void {
    this.#stopped = true;
    this.#run?.stop("the run was ended");
  }

  /** Runs the test. Throws a TraceError if it cannot start: no dataset, or no source of truth. */
  async run(): Promise<LoadOutcome> {
    const { clock } = this.deps;
    const settings = this.settings;
    const { base, fetchOptions } = sideCalls(settings);
    const server = new ServerQueries(base, fetchOptions, clock);
    const { model } = settings;
    const data = await this.#dataset(server);
    const client = await this.#client(model, server);
    const metrics = this.#metrics(fetchOptions);
    try {
      const run = this.#newRun(client);
      this.#run = run;
      const prefix = `load-${randomHex(4)}-`;
      const warmUp = await this.#warmUp(run, client, data, prefix);
      const turns = new Turns(
        data.turns(settings.seed),
        settings.dataset.path ?? settings.dataset.name,
        settings.skipBad,
        undefined,
        () => data.rows().passed,
      );
      const truth = await this.#truth(base, fetchOptions);
      await metrics?.before();
      const startEpochS = epochSeconds();
      const cpuBefore = process.cpuUsage();
      const loopBefore = process.threadCpuUsage();
      const beforeUs = clock.now();
      metrics?.start();
      truth?.follow(() => run.records.length);
      const count = this.#count(data);
      const outcome = await this.#phase(run, client, "", {
        turns,
        prefix,
        loop: this.#loop(count, data),
        concurrency: settings.concurrency ?? Number.POSITIVE_INFINITY,
        count,
        durationUs: settings.durationS === null ? Number.POSITIVE_INFINITY : settings.durationS * 1e6,
        graceUs: settings.graceS * 1e6,
      });
      const used = process.cpuUsage(cpuBefore);
      // Count only the CPU time of the event loop's thread, because compilers and collectors on other threads do not delay sending and reading.
      const loop = process.threadCpuUsage(loopBefore);
      const measuredUs = Math.max(1, clock.now() - beforeUs);
      await metrics?.after();
      const answered = outcome.records.some(isGoodAnswer);
      return this.#outcome(outcome, {
        model,
        nothing: answered ? null : whyNothing(outcome.records, await server.unknown(model)),
        durationS: Math.max(1e-6, greatest(outcome.records, (r) => r.endUs || 0) / 1e6),
        interrupted: outcome.interrupted || this.#stopped,
        cpuUs: used.user + used.system,
        cpuShare: (loop.user + loop.system) / measuredUs,
        measuredS: measuredUs / 1e6,
        asksLength: client.asksLength,
        connectionsOpened: client.connections.opened,
        resent: client.connections.resent,
        warmUpRequests: warmUp.length,
        serverMetrics: metrics?.result() ?? null,
        startEpochS,
        warmUp,
        turns,
        estimatedLengths: data.lengths === "estimated" && settings.dataset.path === undefined,
        metricsMissing: metrics?.missing ?? null,
        gaps: run.keeper.distributions(outcome.records, settings.percentiles),
        folded: run.keeper.folded,
        rows: data.rows(),
        truth: truth && (await comparisonOf(truth, outcome.records)),
      });
    } finally {
      client.close();
    }
  }

  /** Opens the dataset. Throws a TraceError if that fails. */
  async #dataset(server: ServerQueries): Promise<LoadDataset> {
    const { dataset: datasetOptions, dialect, model, seed, count } = this.settings;
    const counts = !isTriton(dialect) && datasetOptions.name !== "custom";
    return dataset({
      ...datasetOptions,
      chat: dialect !== "openai" && !(datasetOptions.name === "custom" && !generates(dialect)),
      count: counts ? await server.counter(model) : null,
      seed,
      limit: count,
    });
  }

  #newRun(client: LoadClient): LoadRun {
    const { settings } = this;
    return new LoadRun({
      ...settings,
      clock: this.deps.clock,
      client,
      cancelAfterUs: settings.cancelAfterS * 1e6,
      slowPauseUs: SLOW_PAUSE_US,
    });
  }

  /** Makes the client. Throws a TraceError if a Triton server does not report the model's inputs. */
  async #client(model: string, server: ServerQueries): Promise<LoadClient> {
    const { clock } = this.deps;
    const { dialect } = this.settings;
    if (dialect === "triton-http") {
      const triton = await server.tritonModel(model);
      if (triton.decoupled)
        throw new TraceError(`model ${model} is decoupled, which /infer does not support; use --backend triton-grpc`);
      const options = this.#clientOptions(model);
      return new Client({ ...options, body: { ...options.body, stream: false, triton } }, clock);
    }
    if (dialect !== "triton-grpc") return new Client(this.#clientOptions(model), clock);
    const { GrpcClient } = await import("./clients/grpc-client.ts");
    const client = new GrpcClient(this.#clientOptions(model), clock);
    await client.learn().catch((why) => {
      client.close();
      throw why;
    });
    return client;
  }

  #clientOptions(model: string): ClientOptions {
    const settings = this.settings;
    const { url, dialect, headers, pooled, retries, seed } = settings;
    const tls = url.protocol === "https:";
    const endpoint = settings.endpoint ?? DIALECTS[dialect].path.replace("MODEL", encodeURIComponent(model));
    const whole = settings.stream ? endpoint : endpoint.replace(/\/generate_stream$/, "/generate");
    return {
      target: {
        hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
        port: url.port === "" ? (tls ? 443 : 80) : Number(url.port),
        tls,
        insecure: settings.insecure,
        ca: settings.ca,
      },
      host: url.host,
      path: url.pathname.replace(/\/$/, "") + whole,
      body: { ...settings, model },
      headers,
      pooled,
      timeoutUs: settings.timeoutS * 1e6,
      retries,
      seed,
      userAgent: `understudy-load/${settings.version}`,
    };
  }

  /** Makes the scraper of the server's metrics. If they are on another host, that host does not get the server's keys. */
  #metrics(options: FetchOptions): ServerMetrics | null {
    const { metricsUrl, metricsIntervalS, url } = this.settings;
    if (metricsUrl === null) return null;
    const isSameHost = new URL(metricsUrl).hostname === url.hostname;
    const own = isSameHost ? options : { ...options, headers: {} };
    return new ServerMetrics(metricsUrl, metricsIntervalS, own, this.deps.clock);
  }

  /** Opens the source of truth. Throws a TraceError if the server does not offer it. */
  async #truth(base: string, options: FetchOptions): Promise<TruthSource | null> {
    const { truth } = this.settings;
    if (truth === null) return null;
    const { clock } = this.deps;
    const source =
      truth.log === null ? new ServerTruthSource(base, options, clock) : new TruthLogSource(truth.log, clock);
    const why = await source.begin();
    if (why !== null) throw new TraceError(`--check-truth: ${why}`);
    return source;
  }

  #count({ total }: LoadDataset): number {
    const { count, durationS, loop, concurrency } = this.settings;
    if (count !== null) return count;
    if (durationS !== null || total !== null || loop.kind === "schedule") return total ?? Number.POSITIVE_INFINITY;
    return loop.kind === "open" ? OPEN_COUNT : Math.max(10, 2 * (concurrency ?? 1));
  }

  #loop(count: number, { name }: LoadDataset): LoadLoop {
    const { loop, durationS, seed } = this.settings;
    if (loop.kind === "closed") return loop;
    if (loop.kind === "schedule") {
      if (this.settings.dataset.path !== undefined) return loop;
      throw new TraceError(`--fixed-schedule: --dataset-name ${name} has no times`);
    }
    const durationUs = durationS === null ? Number.POSITIVE_INFINITY : durationS * 1e6;
    return { kind: "open", arrivals: arrivals({ ...loop, count, durationUs, seed }) };
  }

  /**
   * Warms up at the pace of the measured loop. Before a schedule, requests are sent one after another, because its times
   * belong to the measured requests.
   */
  async #warmUp(
    run: LoadRun,
    client: LoadClient,
    data: LoadDataset,
    prefix: string,
  ): Promise<readonly RequestRecord[]> {
    const { warmUpCount, warmUpS, seed, loop, concurrency, graceS } = this.settings;
    if (warmUpCount === 0 && warmUpS === 0) return [];
    const count = warmUpCount > 0 ? warmUpCount : Number.POSITIVE_INFINITY;
    const durationUs = warmUpS > 0 ? warmUpS * 1e6 : Number.POSITIVE_INFINITY;
    const paced: LoadLoop =
      loop.kind === "open"
        ? { kind: "open", arrivals: arrivals({ ...loop, ramp: null, rescale: false, count, durationUs, seed: ~seed }) }
        : { kind: "closed" };
    const { records } = await this.#phase(run, client, "warm-up | ", {
      turns: new Turns(data.warmUp(seed), "warm-up", false),
      prefix: `${prefix}w`,
      loop: paced,
      concurrency: concurrency ?? (loop.kind === "schedule" ? 1 : Number.POSITIVE_INFINITY),
      count,
      durationUs,
      graceUs: graceS * 1e6,
    });
    return records;
  }

  async #phase(run: LoadRun, client: LoadClient, label: string, phase: Phase): Promise<PhaseOutcome> {
    const unwatch = this.#watch(run, client, label);
    try {
      return await run.phase(this.#stopped ? { ...phase, count: 0 } : phase);
    } finally {
      unwatch?.();
    }
  }

  #watch(run: LoadRun, client: LoadClient, label: string): Cancel | null {
    const { clock, live } = this.deps;
    if (live === null) return null;
    const line = new LiveLine();
    let next: Cancel = () => {};
    const again = () => {
      next = clock.at(clock.now() + LIVE_US, () => {
        const { sent, running, failed, records } = run;
        const elapsedUs = clock.now() - run.startUs;
        live(label + line.line({ elapsedUs, sent, running, failed, outputs: client.outputs, records }));
        again();
      });
    };
    again();
    return () => next();
  }

  #outcome(
    { records }: PhaseOutcome,
    facts: Omit<RunFacts, "warnings"> &
      Omit<Evidence, "records" | "pace" | "stream" | "dialect" | "badLines" | "droppedTurns"> &
      Pick<LoadOutcome, "nothing"> & { readonly turns: Turns; readonly rows: RowFacts },
  ): LoadOutcome {
    const settings = this.settings;
    const bare = resultOf(settings, records, { ...facts, warnings: [] });
    const warnings = warningsOf({
      ...facts,
      records,
      pace: { timed: settings.loop.kind !== "closed", capped: isCapped(settings) },
      stream: settings.stream,
      dialect: settings.dialect,
      badLines: facts.turns.bad.count,
      droppedTurns: facts.turns.dropped,
    });
    const { times, passed } = facts.rows;
    const unit = times?.warning() ?? null;
    if (unit !== null) warnings.push(unit);
    const span = times?.span() ?? null;
    const reasons = passed?.text() ?? null;
    const rows = [span && `trace span: ${spanText(span)}`, reasons && `dataset: ${reasons}`];
    const result = { ...bare, understudy: { ...bare.understudy, warnings } };
    return { result, records, nothing: facts.nothing, rows: rows.filter((row) => row !== null) };
  }
}

const isCapped = ({ loop, concurrency }: Settings): boolean => loop.kind !== "closed" && concurrency !== null;

async function comparisonOf(source: TruthSource, records: readonly RequestRecord[]) {
  const ids = new Set(records.filter(isGoodAnswer).map(joinIdOf));
  return compareWithTruth(records, await source.end(ids));
}

/** Says why no request was answered. `unknown`: a sentence that the server does not know the model, or null. */
function whyNothing(records: readonly RequestRecord[], unknown: string | null): string {
  if (records.length === 0) return "no request was sent";
  const first = records.find(({ failure }) => failure !== null)?.failure;
  if (!first) return "no request was answered undisturbed";
  const model = first.kind === "status" && unknown !== null ? `${unknown}; ` : "";
  return `no request was answered; ${model}the first: ${first.kind}: ${first.message}`;
}
