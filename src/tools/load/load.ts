/** `understudy load` without a terminal and files: asks the server, warms up, measures, and makes the result. */
import type { Cancel, Clock } from "../../base/clock.ts";
import { epochSeconds } from "../../base/clock.ts";
import { randomHex } from "../../base/random.ts";
import { spanText } from "../../workloads/timestamps.ts";
import { TraceError } from "../../workloads/trace.ts";
import type { Result } from "../report/result.ts";
import { arrivals } from "./arrivals.ts";
import { Client, type ClientOptions, type LoadClient } from "./clients/client.ts";
import { dataset, type LoadDataset, type RowsRead } from "./datasets/index.ts";
import { LiveLine } from "./live.ts";
import { greatest, isGoodAnswer } from "./measures.ts";
import { DIALECTS, generates, isTriton } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";
import { resultOf, type Seen } from "./result.ts";
import { type LoadLoop, LoadRun, type Phase, type PhaseOutcome } from "./run.ts";
import { type FetchOptions, ServerTalk } from "./server.ts";
import { ServerMetrics } from "./server-metrics.ts";
import type { Settings } from "./settings.ts";
import { AskedTruth, compareWithTruth, joinIdOf, TruthLogSource, type TruthSource } from "./truth.ts";
import { Turns } from "./turns.ts";
import { warningsOf } from "./warnings.ts";

/** A run without another end. */
const OPEN_COUNT = 1000;
const LIVE_US = 500_000;
/** A slow reader reads once in so long. */
const SLOW_PAUSE_US = 500_000;

export interface Around {
  readonly clock: Clock;
  /** Called every half second with the live line; null: nobody looks. */
  readonly live: ((line: string) => void) | null;
}

export interface Loaded {
  readonly result: Result;
  readonly records: readonly RequestRecord[];
  /** Why nothing could be measured; null: something was. */
  readonly nothing: string | null;
  /** Lines on the rows of the dataset: the time that they span, how many were passed over and why. */
  readonly rows: readonly string[];
}

/** Where and how the server is asked beside the load. */
function sideCalls({ url, headers, insecure, ca }: Settings): { base: string; fetchOptions: FetchOptions } {
  return {
    base: url.origin + url.pathname.replace(/\/$/, ""),
    fetchOptions: { headers, tls: { rejectUnauthorized: !insecure, ...(ca !== null && { ca }) } },
  };
}

/** With the model's name, which the server says where the user does not. Throws a TraceError where it has none, or is not there. */
export async function withModel(settings: Settings, clock: Clock): Promise<Settings & { readonly model: string }> {
  const { base, fetchOptions } = sideCalls(settings);
  const server = new ServerTalk(base, fetchOptions, clock);
  return { ...settings, model: await server.model(settings.dialect, settings.model) };
}

export class Load {
  readonly #settings: Settings & { readonly model: string };
  readonly #around: Around;
  #run: LoadRun | null = null;
  #stopped = false;

  constructor(settings: Settings & { readonly model: string }, around: Around) {
    this.#settings = settings;
    this.#around = around;
  }

  /** The run ends now; what is there is the result. */
  stop(): void {
    this.#stopped = true;
    this.#run?.stop("the run was ended");
  }

  /** Throws a TraceError where it cannot begin: no dataset, nobody to ask for the truth. */
  async run(): Promise<Loaded> {
    const { clock } = this.#around;
    const settings = this.#settings;
    const { base, fetchOptions } = sideCalls(settings);
    const server = new ServerTalk(base, fetchOptions, clock);
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
      // The loop's own thread: compilers and collectors beside it do not keep it from reading and sending.
      const loop = process.threadCpuUsage(loopBefore);
      const measuredUs = Math.max(1, clock.now() - beforeUs);
      await metrics?.after();
      const answered = outcome.records.some(isGoodAnswer);
      return this.#loaded(outcome, {
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
        truth: truth && (await compared(truth, outcome.records)),
      });
    } finally {
      client.close();
      data.close();
    }
  }

  /** Throws a TraceError where there is none. */
  async #dataset(server: ServerTalk): Promise<LoadDataset> {
    const { dataset: asked, dialect, model, seed, count } = this.#settings;
    const counts = !isTriton(dialect) && asked.name !== "custom";
    return dataset({
      ...asked,
      chat: dialect !== "openai" && !(asked.name === "custom" && !generates(dialect)),
      count: counts ? await server.counter(model) : null,
      seed,
      limit: count,
    });
  }

  #newRun(client: LoadClient): LoadRun {
    const { seed, cancelShare, cancelAfterS, slowShare } = this.#settings;
    return new LoadRun({
      clock: this.#around.clock,
      client,
      seed,
      cancelShare,
      cancelAfterUs: cancelAfterS * 1e6,
      slowShare,
      slowPauseUs: SLOW_PAUSE_US,
    });
  }

  /** Throws a TraceError where a Triton server does not say what the model takes. */
  async #client(model: string, server: ServerTalk): Promise<LoadClient> {
    const { clock } = this.#around;
    const { dialect } = this.#settings;
    if (dialect === "triton-http") {
      const triton = await server.tritonModel(model);
      if (triton.decoupled)
        throw new TraceError(`model ${model} is decoupled, which /infer is not: take --backend triton-grpc`);
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
    const settings = this.#settings;
    const { url, dialect } = settings;
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
      headers: settings.headers,
      pooled: settings.pooled,
      timeoutUs: settings.timeoutS * 1e6,
      retries: settings.retries,
      seed: settings.seed,
      userAgent: `understudy-load/${settings.version}`,
    };
  }

  /** Another host than the server's gets none of its keys. */
  #metrics(options: FetchOptions): ServerMetrics | null {
    const { metricsUrl, metricsIntervalS, url } = this.#settings;
    if (metricsUrl === null) return null;
    const own = new URL(metricsUrl).hostname === url.hostname;
    return new ServerMetrics(
      metricsUrl,
      metricsIntervalS,
      own ? options : { ...options, headers: {} },
      this.#around.clock,
    );
  }

  /** Throws a TraceError where the server says no truth. */
  async #truth(base: string, options: FetchOptions): Promise<TruthSource | null> {
    const { truth } = this.#settings;
    if (truth === null) return null;
    const { clock } = this.#around;
    const source = truth.log === null ? new AskedTruth(base, options, clock) : new TruthLogSource(truth.log, clock);
    const why = await source.begin();
    if (why !== null) throw new TraceError(`--check-truth: ${why}`);
    return source;
  }

  #count({ total }: LoadDataset): number {
    const { count, durationS, loop, concurrency } = this.#settings;
    if (count !== null) return count;
    if (durationS !== null || total !== null || loop.kind === "schedule") return total ?? Number.POSITIVE_INFINITY;
    return loop.kind === "open" ? OPEN_COUNT : Math.max(10, 2 * (concurrency ?? 1));
  }

  #loop(count: number, { name }: LoadDataset): LoadLoop {
    const { loop, durationS, seed } = this.#settings;
    if (loop.kind === "closed") return loop;
    if (loop.kind === "schedule") {
      if (this.#settings.dataset.path !== undefined) return loop;
      throw new TraceError(`--fixed-schedule: --dataset-name ${name} has no times`);
    }
    const durationUs = durationS === null ? Number.POSITIVE_INFINITY : durationS * 1e6;
    return { kind: "open", arrivals: arrivals({ ...loop, count, durationUs, seed }) };
  }

  /** With the measured loop's pace; of a schedule, whose times are the measured requests' own, one after the other. */
  async #warmUp(
    run: LoadRun,
    client: LoadClient,
    data: LoadDataset,
    prefix: string,
  ): Promise<readonly RequestRecord[]> {
    const { warmUpCount, warmUpS, seed, loop, concurrency, graceS } = this.#settings;
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
    const watched = this.#watch(run, client, label);
    try {
      return await run.phase(this.#stopped ? { ...phase, count: 0 } : phase);
    } finally {
      watched?.();
    }
  }

  #watch(run: LoadRun, client: LoadClient, label: string): Cancel | null {
    const { clock, live } = this.#around;
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

  #loaded(
    { records }: PhaseOutcome,
    seen: Omit<Seen, "warnings"> & {
      readonly warmUp: readonly RequestRecord[];
      readonly turns: Turns;
      readonly asksLength: boolean;
      readonly estimatedLengths: boolean;
      readonly metricsMissing: string | null;
      readonly folded: number;
      readonly nothing: string | null;
      readonly rows: RowsRead;
    },
  ): Loaded {
    const settings = this.#settings;
    const bare = resultOf(settings, records, { ...seen, warnings: [] });
    const warnings = warningsOf({
      ...seen,
      records,
      pace: { timed: settings.loop.kind !== "closed", capped: isCapped(settings) },
      stream: settings.stream,
      dialect: settings.dialect,
      badLines: seen.turns.bad.count,
      droppedTurns: seen.turns.dropped,
    });
    const { times, passed } = seen.rows;
    const unit = times?.warning() ?? null;
    if (unit !== null) warnings.push(unit);
    const span = times?.span() ?? null;
    const reasons = passed?.text() ?? null;
    const rows = [span && `trace span: ${spanText(span)}`, reasons && `dataset: ${reasons}`];
    const result = { ...bare, understudy: { ...bare.understudy, warnings } };
    return { result, records, nothing: seen.nothing, rows: rows.filter((row) => row !== null) };
  }
}

const isCapped = ({ loop, concurrency }: Settings): boolean => loop.kind !== "closed" && concurrency !== null;

async function compared(source: TruthSource, records: readonly RequestRecord[]) {
  const wanted = new Set(records.filter(isGoodAnswer).map(joinIdOf));
  return compareWithTruth(records, await source.end(wanted));
}

/** `unknown`: that the server does not know the model, if that may be it. */
function whyNothing(records: readonly RequestRecord[], unknown: string | null): string {
  if (records.length === 0) return "no request was sent";
  const first = records.find(({ failure }) => failure !== null)?.failure;
  if (!first) return "no request was answered undisturbed";
  const model = first.kind === "status" && unknown !== null ? `${unknown}; ` : "";
  return `no request was answered; ${model}the first: ${first.kind}: ${first.message}`;
}
