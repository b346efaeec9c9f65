/** Who knows whom? The only place that wires everything together: one server, its engines, their metrics. */
import { Elysia } from "elysia";
import { Accounts } from "./accounting.ts";
import { createAlarm } from "./alarm.ts";
import { type Clock, epochSeconds, epochUsOf, WallClock } from "./clock.ts";
import { histogramBounds, LOOP_BOUNDS } from "./config/buckets.ts";
import type { ServeConfig } from "./config/types.ts";
import { loadAnswers } from "./content/answers.ts";
import { renderChat } from "./content/chat-template.ts";
import { createEncoder } from "./content/encoder.ts";
import { loadVocabulary } from "./content/vocabulary.ts";
import { Fleet } from "./engine/fleet.ts";
import { Journal, type JournalText } from "./engine/journal.ts";
import type { Snapshot } from "./engine/types.ts";
import { cacheConfigLabels } from "./metrics/cache-config.ts";
import { refreshesOf } from "./metrics/dialects.ts";
import { Held, type Source } from "./metrics/held.ts";
import type { Identity, Setup } from "./metrics/identity.ts";
import { type LogState, logLines } from "./metrics/log-line.ts";
import { METRICS_METHODS, metrics } from "./metrics/route.ts";
import { DEV_METHODS, devRoutes } from "./protocol/openai/dev-routes.ts";
import { accessLine, type OpenAiOptions } from "./protocol/openai/front.ts";
import { openai } from "./protocol/openai/routes.ts";
import { randomSeed, seeded } from "./random.ts";
import { Garbage, SpareTime } from "./spare-time.ts";
import { StepLog } from "./step-log.ts";
import { createTruthLog, type TruthLog } from "./truth/log.ts";

/** vLLM logs its statistics so often (VLLM_LOG_STATS_INTERVAL). */
const STATS_INTERVAL_S = 10;
/** After an orderly end the last bytes get this long to leave. */
const FLUSH_MS = 100;
/** A disk that hangs must not hold the exit. */
const TRUTH_CLOSE_MS = 5000;
/** Reading a body of half a megabyte, or hashing its prompt; how long it may be put off. */
const LONG_WORK_US = 4000;
const LONG_WORK_PATIENCE_US = 200_000;
/** A whole collection with 10,000 open streams takes 25 to 45 ms. */
const COLLECTION_US = 60_000;
const COLLECTION_PATIENCE_US = 2_000_000;
/** Idle keep-alive connections are closed after this, as uvicorn does. */
const KEEP_ALIVE_S = 5;

export interface AppOptions {
  readonly log: (line: string) => void;
  /** Writes when each step was due, begun and done. */
  readonly stepLog?: string | undefined;
}

export interface App {
  readonly url: string;
  readonly engines: Fleet;
  snapshot(): Snapshot;
  /** The end-of-sequence id, and by engine what its core was told last: with the configuration, all that repeating it takes. */
  readonly eosId: number;
  journals(): JournalText[];
  /** Ends in order: waits up to `graceS` for those that run, then ends them with reason abort. */
  close(graceS: number): Promise<void>;
}

/** Files made by the build, beside the sources. */
const built = (name: string) => Bun.file(new URL(`../build/${name}`, import.meta.url));

export async function createApp(config: ServeConfig, { log, stepLog }: AppOptions): Promise<App> {
  const [core, vocabularyBytes, answers] = await Promise.all([
    built("core.wasm").arrayBuffer(),
    built("vocabulary.bin").bytes(),
    built("answers.bin").bytes(),
  ]).catch(() => {
    throw new Error("build/ is not complete: bun run build");
  });
  const clock = new WallClock(createAlarm);
  const vocabulary = loadVocabulary(vocabularyBytes);
  const encoder = createEncoder(vocabularyBytes);
  const steps = stepLog ? new StepLog(stepLog) : null;
  const truth = config.truthLog
    ? createTruthLog(
        config.truthLog,
        { engine: config.engine, engines: config.dataParallelSize, epochUs: epochUsOf(0) },
        log,
      )
    : null;
  const journals = Array.from({ length: config.dataParallelSize }, () => new Journal());
  const engines = new Fleet({
    engines: config.dataParallelSize,
    journal: (rank) => journals[rank]!,
    config: config.engine,
    clock,
    module: new WebAssembly.Module(core),
    eosId: vocabulary.eosId,
    answers: loadAnswers(answers),
    adapters: config.loraModules.length,
    ...(steps ? { onStep: steps.add } : {}),
    beforeUpdate: (nowUs) => held.before(nowUs),
    ...(truth ? { observer: (rank: number) => truth.observer(rank) } : {}),
  });
  const accounts = new Accounts();
  const spare = new SpareTime(clock, LONG_WORK_US, LONG_WORK_PATIENCE_US);
  const garbage = new Garbage(new SpareTime(clock, COLLECTION_US, COLLECTION_PATIENCE_US), (now) => void Bun.gc(now));
  const snapshot = (): Snapshot => ({
    engines: engines.snapshots(),
    loop: engines.lateness(),
    front: accounts.snapshot(),
    ...(truth ? { truth: truth.dropped() } : {}),
  });
  const identity: Identity = {
    role: "vllm",
    modelName: config.servedModelNames[0]!,
    engineFirst: 0,
    startedS: epochUsOf(0) / 1e6,
    cacheConfig: cacheConfigLabels(config),
    fixes: config.engine.fixes ?? [],
    disableLogStats: config.disableLogStats,
  };
  const setup: Setup = {
    identity,
    shape: {
      engines: config.dataParallelSize,
      bounds: histogramBounds(config.engine.maxModelLen),
      loopBounds: LOOP_BOUNDS,
      adapters: config.loraModules.length,
      truth: truth !== null,
    },
    refreshes: refreshesOf(identity),
  };
  const held = new Held(setup.shape, setup.refreshes, viewsOf(engines, accounts, truth), clock.now());
  const front: OpenAiOptions = {
    config,
    vocabulary,
    encoder,
    backend: {
      submit: (generation, receiver) => fatal(() => engines.submit(generation, receiver)),
      nowUs: () => clock.now(),
      spare: async () => void (await spare.pass()),
      consumed: garbage.add,
    },
    accounting: accounts,
    renderChat,
    accessLog: config.disableAccessLog ? null : (access) => log(accessLine(access)),
    requestLog: config.enableLogRequests ? log : null,
    epochSeconds,
    // --seed makes unseeded requests repeat from one start to the next, in order of arrival.
    nextSeed: config.engine.seed === 0 ? randomSeed : seeded(config.engine.seed),
    alive: () => true,
    otherRoutes: { ...METRICS_METHODS, ...(config.devMode ? DEV_METHODS : {}) },
  };
  const app = new Elysia({
    strictPath: true,
    // Elysia would share the port with another process: a port in use must be an error.
    serve: { reusePort: false, idleTimeout: KEEP_ALIVE_S, maxRequestBodySize: config.maxBodyBytes + 1024 },
  })
    .use(metrics(() => held.refresh(clock.now()), setup))
    .use(openai(front));
  if (config.devMode) app.use(devRoutes(front, engines));
  app.listen({ hostname: config.host, port: config.port });
  const server = app.server!;
  if (!config.disableLogStats) logStatistics(clock, snapshot, log);

  return {
    url: `http://${server.hostname}:${server.port}`,
    engines,
    snapshot,
    eosId: vocabulary.eosId,
    journals: () => journals.map((journal) => journal.text()),
    async close(graceS) {
      const untilUs = clock.now() + graceS * 1e6;
      const stopped = server.stop();
      while (engines.live > 0 && clock.now() < untilUs) await pause(clock, 10_000);
      engines.abortAll();
      await Promise.race([stopped, pause(clock, FLUSH_MS * 1000)]);
      await server.stop(true);
      engines.stop();
      if (truth) await Promise.race([truth.close(), pause(clock, TRUTH_CLOSE_MS * 1000)]);
      encoder.close();
      clock.close();
      steps?.write();
    },
  };
}

/** A core that trapped is unusable: that must end the process, and not one request with an error. */
function fatal<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
    throw error;
  }
}

/** Live views for the held copies: made once, read at each copy. */
function viewsOf(engines: Fleet, front: Accounts, truth: TruthLog | null): Source {
  const loop = engines.latenessView();
  const views = { now: engines.views("now"), step: engines.views("step") };
  return (fresh) => ({ engines: views[fresh], loop, front, ...(truth ? { truth: truth.dropped() } : {}) });
}

const pause = (clock: Clock, us: number) => new Promise<void>((done) => clock.at(clock.now() + us, done));

/** vLLM's line every ten seconds, unless nothing moved. */
function logStatistics(clock: Clock, snapshot: () => Snapshot, log: (line: string) => void): void {
  let state: LogState = [];
  const tick = () => {
    const { lines, state: next } = logLines(state, snapshot(), STATS_INTERVAL_S, 0);
    state = next;
    for (const line of lines) log(line);
    clock.at(clock.now() + STATS_INTERVAL_S * 1e6, tick);
  };
  clock.at(clock.now() + STATS_INTERVAL_S * 1e6, tick);
}
