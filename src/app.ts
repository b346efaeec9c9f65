/** Who knows whom? The only place that wires everything together: one server, its engines, their metrics. */
import { edenGC } from "bun:jsc";
import { availableParallelism } from "node:os";
import { Elysia } from "elysia";
import { Accounts, watched } from "./accounting.ts";
import { createAlarm } from "./alarm.ts";
import { type Clock, epochSeconds, epochUsOf, WallClock } from "./clock.ts";
import { adapterPlaces } from "./config/adapter-places.ts";
import { readTls } from "./config/certificates.ts";
import { doorOf } from "./config/door.ts";
import { httpRoutes } from "./config/http-counts.ts";
import { TritonPortError } from "./config/triton-metrics.ts";
import type { ServeConfig, WireConfig } from "./config/types.ts";
import { laidDown } from "./content/laid-down.ts";
import { naturalLength } from "./content/output-lengths.ts";
import { builtInText, folderText } from "./content/text-model.ts";
import { DueTime } from "./due-time.ts";
import { Cause } from "./engine/causes.ts";
import { Fleet } from "./engine/fleet.ts";
import { Journal, type JournalText } from "./engine/journal.ts";
import { Punctuality } from "./engine/punctuality.ts";
import type { EngineView, Snapshot } from "./engine/types.ts";
import { HttpAccounts } from "./http-accounts.ts";
import { type Admin, LiveSettings } from "./live-settings.ts";
import { Marks, sampleEventLoop, thisHost } from "./marks.ts";
import { stuck } from "./metrics/bugs/stuck.ts";
import { bugs } from "./metrics/bugs/table.ts";
import { Held, type Source } from "./metrics/held.ts";
import type { Identity } from "./metrics/identity.ts";
import { logStatistics } from "./metrics/log-line.ts";
import { Renderer } from "./metrics/renderer.ts";
import { METRICS_METHODS, metrics } from "./metrics/route.ts";
import { setupOf } from "./metrics/setup.ts";
import type { Pages } from "./metrics/shared.ts";
import { Ensemble } from "./metrics/triton/ensemble.ts";
import { tritonListener } from "./metrics/triton/listener.ts";
import { anthropic } from "./protocol/anthropic/dialect.ts";
import { listen } from "./protocol/http1/listen.ts";
import { ADMIN_METHODS, adminRoutes } from "./protocol/openai/admin-routes.ts";
import { devRoutes, type EngineControl } from "./protocol/openai/dev-routes.ts";
import { docsRoutes } from "./protocol/openai/docs-routes.ts";
import { type Access, accessLine, type OpenAiOptions } from "./protocol/openai/front.ts";
import { openai } from "./protocol/openai/routes.ts";
import { countedBy, DEV_METHODS, DOCS_METHODS } from "./protocol/openai/served.ts";
import { responses } from "./protocol/responses/dialect.ts";
import type { HotRoutes } from "./protocol/sink.ts";
import { randomSeed, seeded } from "./random.ts";
import { Garbage, SpareTime } from "./spare-time.ts";
import { StepLog } from "./step-log.ts";
import { createTruthLog, type TruthLog } from "./truth/log.ts";
import { Peers } from "./truth/peers.ts";
import { observersOf, Recent } from "./truth/recent.ts";
import { RING } from "./truth/ring.ts";
import { TRUTH_METHODS, truthRoutes } from "./truth/routes.ts";
import type { About } from "./truth/schema.ts";

/** After an orderly end the last bytes get this long to leave. */
const FLUSH_MS = 100;
/** A disk that hangs must not hold the exit. */
const TRUTH_CLOSE_MS = 5000;
/** One of several processes may be killed, and goes on as another: of its truth little is to be lost. */
const HASTY = { ...RING, lingerUs: 50_000 };
/** Reading a body of half a megabyte, giving it to the encoder or hashing its prompt; how long it may be put off. */
const LONG_WORK_US = 6000;
const LONG_WORK_PATIENCE_US = 200_000;
/** Making a piece of an answer about the last requests. */
const PIECE_US = 500;
const PIECE_PATIENCE_US = 20_000;
/** A whole collection with 10,000 open streams takes 25 to 45 ms. */
const COLLECTION_US = 60_000;
const COLLECTION_PATIENCE_US = 2_000_000;
/** vLLM looks so often whether its engine still lives, and ends when it does not. */
const WATCHDOG_US = 5_000_000;

export interface AppOptions {
  readonly log: (line: string) => void;
  /** Writes when each step was due, begun and done. */
  readonly stepLog?: string | undefined;
  /** Absent: the only process of its server. */
  readonly place?: Place | undefined;
  /** Absent: nobody changes the server while it runs. */
  readonly admin?: Admin | undefined;
}

/** One of several processes that serve on the same port. */
export interface Place {
  /** From 0. */
  readonly index: number;
  readonly workers: number;
  /** How long the server took to start, seconds. */
  readonly loadS: number;
  readonly pages: Pages;
  /** What acts on the engines of all processes. */
  readonly control: (own: Fleet) => EngineControl;
}

export interface App {
  readonly url: string;
  /** Where Triton's metrics have a port of their own. */
  readonly tritonUrl: string | null;
  readonly engines: Fleet;
  snapshot(): Snapshot;
  /** The end-of-sequence id, and by engine what its core was told last: with the configuration, all that repeating it takes. */
  readonly eosId: number;
  journals(): JournalText[];
  /** Settles some seconds after a script has had the engine die: the server is to end. */
  readonly died: Promise<void>;
  /** Ends in order: waits up to `graceS` for those that run, then ends them with reason abort. */
  close(graceS: number): Promise<void>;
}

/** Files made by the build, beside the sources. */
const built = (name: string) => Bun.file(new URL(`../build/${name}`, import.meta.url));

export async function createApp(given: ServeConfig, { log: write, stepLog, place, admin }: AppOptions): Promise<App> {
  const live = new LiveSettings(given);
  const { config } = live;
  const tls = config.tls && readTls(config.tls);
  if (tls && "error" in tls) throw new Error(tls.error);
  const [core, vocabularyBytes, answers] = await Promise.all([
    built("core.wasm").arrayBuffer(),
    built("vocabulary.bin").bytes(),
    built("answers.bin").bytes(),
  ]).catch(() => {
    throw new Error("build/ is not complete: bun run build");
  });
  const due = new DueTime();
  const clock = new WallClock((ring) => createAlarm(ring, due));
  const wire = config.wire ?? {};
  const text = wire.tokenizer
    ? await folderText(wire.tokenizer)
    : builtInText(
        vocabularyBytes,
        answers,
        wire.reasoningParser !== undefined,
        // With more than one the threads do not meet.
        availableParallelism() === 1 ? due.shared : null,
      );
  const { vocabulary } = text;
  const punctual = new Punctuality({
    clock,
    host: thisHost,
    steps: () => engines.latenessView().stepStartLateness.count,
    log: config.disableLogStats ? null : write,
  });
  const marks = new Marks(punctual.causes, clock);
  const log = marks.log(write);
  const encoder = marks.encoder(text.encoder);
  // Several processes read the same folder; the first one speaks.
  const openLaid = (of: WireConfig) =>
    laidDown(of, vocabulary, {
      say: (place?.index ?? 0) === 0 ? log : () => {},
      gap: async () => void (await spare.pass()),
    });
  const laid = await openLaid(wire);
  const lengths = config.outputTokens;
  const traced =
    lengths.kind === "trace" ? (await import("./traces/output-lengths.ts")).readOutputLengths(lengths.file) : null;
  const steps = stepLog ? new StepLog(stepLog) : null;
  const engineFirst = (place?.index ?? 0) * config.dataParallelSize;
  const truth = config.truthLog
    ? createTruthLog(config.truthLog, aboutOf(config, place), log, place ? HASTY : RING, marks.aside(Cause.Truth))
    : null;
  const { truthRequests, dataParallelSize } = config;
  const recent = truthRequests ? new Recent(truthRequests, dataParallelSize, engineFirst, clock.now()) : null;
  const journals = Array.from({ length: config.dataParallelSize }, () => new Journal());
  const engines = new Fleet({
    engines: config.dataParallelSize,
    rank: engineFirst,
    journal: (rank) => journals[rank]!,
    config: config.engine,
    clock,
    module: new WebAssembly.Module(core),
    eosId: vocabulary.eosId,
    answers: text.answers,
    adapters: adapterPlaces(config),
    loopObservers: [
      punctual,
      ...(steps ? [steps] : []),
      { updating: () => sticking?.observe() },
      { updating: (nowUs) => held.before(nowUs) },
      ...(place ? [{ moved: (idle: boolean) => shown?.moved(idle) }] : []),
    ],
    ...observersOf(engineFirst, truth, recent),
    ...(config.triton.metrics
      ? { passages: () => new Ensemble(config.triton.quantiles, () => clock.now(), epochUsOf(0)) }
      : {}),
  });
  const routes = httpRoutes(countedBy(config));
  const httpAccounts = new HttpAccounts(
    routes,
    () => clock.now(),
    () => shown?.moved(),
  );
  const accounts = new Accounts(httpAccounts);
  const spare = new SpareTime(clock, LONG_WORK_US, LONG_WORK_PATIENCE_US);
  const collect = (how: () => unknown) => marks.timed(Cause.Collection, () => void how());
  const garbage = new Garbage(new SpareTime(clock, COLLECTION_US, COLLECTION_PATIENCE_US), (now) => {
    if (now) collect(() => Bun.gc(true));
    // Bodies are young when they become garbage: a collection of what is new finds them, and takes a tenth of the time.
    else void spare.pass().then(() => collect(edenGC));
  });
  const pieces = new SpareTime(clock, PIECE_US, PIECE_PATIENCE_US);
  const snapshot = (): Snapshot => ({
    engines: engines.snapshots(),
    loop: engines.lateness(),
    front: accounts.snapshot(),
    ...(truth ? { truth: truth.dropped() } : {}),
  });
  const setup = setupOf(config, epochUsOf(0) / 1e6, routes, place === undefined, place?.loadS ?? clock.now() / 1e6);
  const source = viewsOf(engines, accounts, truth);
  const sticking = stuck(config.bugs, source);
  const held = new Held(setup.shape, setup.refreshes, sticking?.source ?? source, clock.now());
  const shown = place
    ? (await import("./metrics/publisher.ts")).publisherAt(place.pages, place.index, held, clock)
    : null;
  let dead = false;
  const died = Promise.withResolvers<void>();
  const die = () => {
    if (dead) return;
    dead = true;
    engines.die();
    clock.at(clock.now() + WATCHDOG_US, died.resolve);
  };
  const logAccess = (access: Access) => log(accessLine(access));
  const hot: HotRoutes = new Map();
  const front: OpenAiOptions = {
    config,
    vocabulary,
    encoder,
    backend: {
      submit: (generation, receiver) => fatal(() => engines.submit(generation, receiver)),
      nowUs: () => clock.now(),
      catchUp: () => fatal(() => clock.catchUp?.()),
      spare: () => marks.beforeLongPrompt(() => spare.pass()),
      consumed: garbage.add,
      inFlight: () => engines.live,
      load: () => {
        const now = engines.views("now");
        const sum = (numberOf: (view: EngineView) => number) => now.reduce((all, view) => all + numberOf(view), 0);
        return { waiting: sum(({ waiting }) => waiting), kvUsage: sum(({ kvUsage }) => kvUsage) / now.length };
      },
      standStill: (still) => engines.standStill(still),
      die: () => clock.soon(die),
      after: (us, act) => clock.at(clock.now() + us, act),
    },
    accounting: shown ? watched(accounts, shown) : accounts,
    httpAccounting: httpAccounts,
    hot,
    renderChat: text.renderChat,
    endIds: text.endIds,
    blanks: text.blanks,
    generation: text.generation,
    ...laid,
    ...(admin ? { fixtures: live.following(laid.fixtures) } : {}),
    adaptersLoaded: (names) => renderer.name(names),
    responseRole: wire.responseRole ?? "assistant",
    trackServerLoad: wire.trackServerLoad === true,
    ...fingerprint(wire),
    answers: text.answers,
    get accessLog() {
      return live.logsAccess ? logAccess : null;
    },
    get requestLog() {
      return live.logsRequests ? log : null;
    },
    epochSeconds,
    naturalLength: naturalLength(lengths, traced),
    // --seed makes unseeded requests repeat from one start to the next, in order of arrival.
    nextSeed: config.engine.seed === 0 ? randomSeed : seeded(config.engine.seed + engineFirst),
    alive: () => !dead,
    otherRoutes: {
      ...METRICS_METHODS,
      ...TRUTH_METHODS,
      ...(config.disableFastapiDocs ? {} : DOCS_METHODS),
      ...(config.devMode ? DEV_METHODS : {}),
      ...(admin ? ADMIN_METHODS : {}),
    },
  };
  const leftUs = () => clock.nextUs() - clock.now();
  const renderer =
    place && shown && !config.bugs.some((name) => bugs[name].alone)
      ? new Renderer(
          () => {
            shown.now();
            return null;
          },
          { ...setup, shape: { ...setup.shape, engines: place.workers * setup.shape.engines }, pages: place.pages },
          leftUs,
        )
      : new Renderer(() => held.refresh(clock.now()), setup, leftUs);
  const dialects = [anthropic(config.enablePromptTokensDetails), responses(wire.responseStore ?? 0)];
  const app = new Elysia({ strictPath: true }).use(metrics(renderer, setup.identity)).use(openai(front, dialects));
  if (config.devMode) app.use(devRoutes(front, place ? place.control(engines) : engines));
  if (admin)
    app.use(
      adminRoutes(
        front,
        live.changing(admin, (pace) => engines.retime(pace), openLaid),
      ),
    );
  renderer.marks = marks.of(Cause.Scrape);
  app.use(
    truthRoutes({
      recent,
      about: aboutOf(config, place),
      spare: () => pieces.pass(),
      worked: (work) => marks.timed(Cause.Truth, work),
      peers: place ? new Peers(place.pages.files[0]!, place.index, place.workers, clock) : null,
    }),
  );
  if (!config.disableFastapiDocs) app.use(docsRoutes(front, dialects));
  const server = await listen(app, {
    hostname: config.host,
    port: config.port,
    tls,
    reusePort: place !== undefined,
    door: doorOf(config),
    timer: front.backend,
    epochSeconds,
    hot,
  });
  const tritonPort = await listenAsTriton(config, renderer, setup.identity, place !== undefined).catch(async (why) => {
    // A server that is left listening would keep the process alive.
    await server.stop(true);
    throw new TritonPortError(why);
  });
  if (!config.disableLogStats) logStatistics(clock, snapshot, engineFirst, log);
  sampleEventLoop(clock, (us) => {
    engines.delayed(us);
    shown?.moved();
  });

  return {
    url: `${tls ? "https" : "http"}://${server.hostname}:${server.port}`,
    tritonUrl: tritonPort && `http://${tritonPort.hostname}:${tritonPort.port}`,
    engines,
    snapshot,
    eosId: vocabulary.eosId,
    journals: () => journals.map((journal) => journal.text()),
    died: died.promise,
    async close(graceS) {
      const untilUs = clock.now() + graceS * 1e6;
      const stopped = server.stop();
      while (engines.live > 0 && clock.now() < untilUs) await pause(clock, 10_000);
      engines.abortAll();
      await Promise.race([stopped, pause(clock, FLUSH_MS * 1000)]);
      await Promise.all([server.stop(true), tritonPort?.stop(true)]);
      engines.stop();
      punctual.stop();
      shown?.stop();
      if (truth) await Promise.race([truth.close(), pause(clock, TRUTH_CLOSE_MS * 1000)]);
      laid.fixtures?.close();
      laid.dataset?.close();
      encoder.close();
      clock.close();
      steps?.write();
    },
  };
}

/** Triton's metrics port; null: none is wanted. */
async function listenAsTriton({ triton }: ServeConfig, renderer: Renderer, identity: Identity, shared: boolean) {
  if (triton.listen === null) return null;
  const { host, port } = triton.listen;
  return tritonListener(renderer, identity, shared).listen({ hostname: host, port }).server!;
}

function fingerprint({ fingerprintMode, fingerprintValue }: WireConfig): { readonly fingerprint?: string | null } {
  if (fingerprintMode === "none") return { fingerprint: null };
  return fingerprintMode === "custom" ? { fingerprint: fingerprintValue ?? "" } : {};
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

/** What the truth log of this process says of itself. */
function aboutOf({ engine, dataParallelSize }: ServeConfig, place: Place | undefined): About {
  const about = { engine, engines: dataParallelSize * (place?.workers ?? 1), epochUs: epochUsOf(0) };
  return place ? { ...about, worker: place.index } : about;
}

const pause = (clock: Clock, us: number) => new Promise<void>((done) => clock.at(clock.now() + us, done));
