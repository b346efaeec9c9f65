/** Builds the kernel of a server: core, engines, clocks, text, counts, metrics, truth, and their end. */

import { type Clock, epochSeconds, epochUsOf, LeasedClock, WallClock } from "../base/clock.ts";
import { LiveCell } from "../base/live-value.ts";
import { type Ids, idsOf, mix, randomHex, randomSeed, seeded } from "../base/random.ts";
import { UserError } from "../base/start-errors.ts";
import { createAlarm } from "../base/time/alarm.ts";
import { DueTime } from "../base/time/due-time.ts";
import { logUnexpected } from "../base/unexpected.ts";
import type { Fleet } from "../engine/fleet.ts";
import type { AdapterName } from "../engine/interface/cache-records.ts";
import type { EngineView } from "../engine/interface/types.ts";
import type { Iterations } from "../engine/iterations.ts";
import { Punctuality } from "../engine/lateness/punctuality.ts";
import type { KvEvents } from "../kv-events/kv-events.ts";
import { logStatistics } from "../metrics/log-line.ts";
import type { HttpRoute } from "../metrics/rows/http-counts.ts";
import type { CannedAnswers } from "../text/canned/canned-answers.ts";
import type { AnswerRules } from "../text/canned/fixtures/match.ts";
import type { TextModel } from "../text/text-model.ts";
import { faultLines } from "../truth/fault-lines.ts";
import { Accounts, HttpAccounts } from "./accounting.ts";
import type { Backend } from "./backend.ts";
import { throwUncaught } from "./broken-engine.ts";
import { engineFirstOf, enginePartsOf, type FleetParts } from "./engines.ts";
import { gapsOf } from "./gaps.ts";
import type { Kernel, KernelChance, KernelLifecycle, KernelPressure } from "./kernel.ts";
import type { KernelConfig, StartConfig } from "./kernel-config.ts";
import { type Admin, LiveSettings } from "./live-settings.ts";
import { Marks, sampleEventLoop, thisHost } from "./marks.ts";
import { type PageParts, pagePartsOf } from "./pages.ts";
import type { Place } from "./place.ts";
import { RequestHistory } from "./request-history.ts";
import { type StreamWrites, streamWritesOf } from "./stream-writes.ts";
import { builtFiles, laidFor, lengthsOf, textOf } from "./text.ts";

/** Longest wait for the truth log at the end: a disk that hangs must not delay the exit. */
const TRUTH_CLOSE_MS = 5000;
/** Interval at which vLLM checks whether its engine is alive. vLLM ends if the engine does not live. */
const WATCHDOG_US = 5_000_000;

export interface KernelOptions {
  /** Writes a line to the log of the server. */
  readonly log: (line: string) => void;
  /** File that gets the times at which each step was due, begun and done. */
  readonly stepLog?: string | undefined;
  /** Absent: this is the only process of the server. */
  readonly place?: Place | undefined;
  /** Absent: nobody changes the server while it runs. */
  readonly admin?: Admin | undefined;
  /** Absent: the clock of the machine, with an alarm thread. */
  readonly clock?: Clock | undefined;
  /** Seconds since 1970. Absent: those of the machine. */
  readonly epochSeconds?: (() => number) | undefined;
  /** Source of ids for requests and answers. Absent: ids are drawn from `--seed` if it is given, otherwise at random. */
  readonly newId?: Ids | undefined;
  /** Answers of the program that runs this server. They win over all other ordered answers. */
  readonly rules?: AnswerRules | undefined;
  /** Keeps what clients send. Absent: requests are kept only with `--keep-bodies`. */
  readonly history?: RequestHistory;
  /**
   * Called when an engine cannot go on: a `CoreTrap`, a `WebAssembly.RuntimeError` or an `EngineBroken`. Absent: it is
   * thrown as an uncaught error of the process.
   */
  readonly broke?: ((error: Error) => void) | undefined;
}

/** Bytes of a seed of block hashes that is drawn. */
const HASH_SEED_BYTES = 32;

/**
 * The parts that stay when a server begins anew: its clock with the alarm, its text with the encoder's thread, its files, its
 * publisher of KV events.
 */
export interface ReusableParts {
  readonly clock: Clock;
  readonly built: Awaited<ReturnType<typeof builtFiles>>;
  readonly text: TextModel;
  readonly streamWrites: StreamWrites;
  /** null: nothing is published. */
  readonly kvEvents: KvEvents | null;
  close(): Promise<void>;
}

/** Rejects with a `UserError` if an option turns out wrong. */
export async function createReusableParts(config: StartConfig, options: KernelOptions): Promise<ReusableParts> {
  const built = await builtFiles(config.engine);
  const due = new DueTime();
  const clock = options.clock ?? new WallClock((ring, died) => createAlarm(ring, died, due), timerFailed);
  const text = await textOf(config.text, built, due);
  const streamWrites = await streamWritesOf(config);
  const kvEvents = await kvEventsOf(config, options).catch((why) => {
    text.encoder.close();
    clock.close();
    throw why;
  });
  return {
    clock,
    built,
    text,
    streamWrites,
    kvEvents,
    async close() {
      await kvEvents?.close();
      text.encoder.close();
      clock.close();
    },
  };
}

/** Starts publishing KV events. Loads the code only if it is needed. Rejects with a `UserError` if an address cannot be used. */
async function kvEventsOf(config: StartConfig, { place, log }: KernelOptions): Promise<KvEvents | null> {
  const { kvEvents, dataParallelSize: engines } = config;
  if (kvEvents === undefined) return null;
  const { KvEvents } = await import("../kv-events/kv-events.ts");
  const engineFirst = engineFirstOf(config, place);
  const drawSeed = () => randomHex(HASH_SEED_BYTES);
  return KvEvents.open({ config: kvEvents, engineFirst, engines, drawSeed, log }).catch((why: Error) => {
    throw new UserError("--kv-events-config", why.message);
  });
}

const timerFailed = (error: unknown) => logUnexpected("a timer failed", error);

/**
 * `routes`: the routes whose HTTP requests are counted. `kept`: parts that outlive this kernel and serve the next one.
 * Rejects as `createReusableParts` does.
 */
export async function createKernel<C extends KernelConfig>(
  config: C & StartConfig,
  routes: readonly HttpRoute[],
  options: KernelOptions,
  kept?: ReusableParts,
): Promise<Kernel<C>> {
  const { place, admin } = options;
  const live = new LiveSettings(config);
  const reusable = kept ?? (await createReusableParts(config, options));
  const { built, streamWrites } = reusable;
  const clock = kept ? new LeasedClock(kept.clock) : reusable.clock;
  const epochUs = epochOf(clock, options);
  const punctual = punctualityOf(clock, config.logs.disableLogStats ? null : options.log, () => fleet.engines);
  const marks = new Marks(punctual.causes, clock);
  const log = marks.log(options.log);
  const model = { ...reusable.text, encoder: marks.encoder(reusable.text.encoder) };
  const gaps = gapsOf(clock, marks);
  const first = (place?.index ?? 0) === 0;
  const openCanned = (files: Parameters<typeof laidFor>[0]) =>
    laidFor(files, model, { first, log, gap: async () => void (await gaps.long.pass()), nowUs: () => clock.now() });
  const opened = await openCanned({ ...config.text, ...config.faults });
  const canned = admin ? { ...opened, fixtures: live.following(opened.fixtures) } : opened;
  const naturalLength = await lengthsOf(config);
  const iterations = await iterationsOf(config);
  const adapters = { byNumber: (number: number): AdapterName | null => config.models.loraModules[number - 1] ?? null };
  const fleet = enginePartsOf({
    iterations,
    kvEvents: reusable.kvEvents,
    adapter: (number) => adapters.byNumber(number),
    config,
    core: built.core,
    text: model,
    punctual,
    marks,
    log,
    stepLog: options.stepLog,
    place,
    epochUs,
    lanes: streamWrites.lanes,
    broke: options.broke ?? throwUncaught,
    loopObservers: [
      { updating: (nowUs) => pages.beforeUpdate(nowUs), stepped: ({ rows }) => gaps.garbage.wrote(rows) },
      ...(place ? [{ moved: (idle: boolean) => pages.shown?.moved(idle) }] : []),
    ],
  });
  const { engines, journals, truth } = fleet;
  const moved = () => pages.shown?.moved();
  const httpAccounts = new HttpAccounts(routes, clock.now.bind(clock), moved);
  const accounts = new Accounts(httpAccounts, moved, reusable.kvEvents ? () => reusable.kvEvents!.losses : undefined);
  const pages = await pagePartsOf({ ...fleet, config, streamWrites, routes, accounts, clock, marks, place, epochUs });
  const { renderer, identity, snapshot } = pages;
  const { alive, died, die } = lifeOf(clock, () => engines.die());
  if (!config.logs.disableLogStats) logStatistics(clock, snapshot, fleet.engineFirst, log);
  sampleEventLoop(clock, (us) => {
    engines.delayed(us);
    moved();
  });
  return {
    config,
    live,
    log,
    backend: backendOf({ clock, marks, gaps, engines, die }),
    engines: { fleet: engines, journals, iterations, streamWrites, alive, died, adapters, kvEvents: reusable.kvEvents },
    time: { clock, lastingClock: reusable.clock, epochSeconds: options.epochSeconds ?? epochSeconds, epochUs },
    chance: chanceOf(config, options, fleet),
    text: { model, canned, openCanned, rules: options.rules, naturalLength },
    truth: {
      log: truth,
      recent: fleet.recent,
      history: historyOf(config, options, epochUs),
      faultWitness: truth ? faultLines(truth, config.truth.log?.wire === true) : undefined,
    },
    metrics: { renderer, identity, snapshot, accounting: accounts, httpAccounts },
    pressure: { marks, gaps },
    lifecycle: { place, admin, ...endOf({ fleet, pages, clock, canned, punctual, last: kept ? null : reusable }) },
  };
}

function chanceOf({ seed }: KernelConfig, { newId, place }: KernelOptions, { engineFirst }: FleetParts): KernelChance {
  return {
    newId: newId ?? idsOf(seed === null ? null : mix(seed, place?.index ?? 0)),
    // With --seed, the seeds of requests are the same after every start, in the order in which requests arrive.
    nextSeed: seed === null ? randomSeed : seeded(seed + engineFirst),
  };
}

/** Loads the code that records iterations only if they are recorded. */
async function iterationsOf({ engine, iterations }: KernelConfig): Promise<Iterations | null> {
  return iterations ? new (await import("../engine/iterations.ts")).Iterations(engine, iterations) : null;
}

function punctualityOf(clock: Clock, log: KernelOptions["log"] | null, engines: () => Fleet): Punctuality {
  const steps = () => engines().latenessView().stepStartLateness.count;
  return new Punctuality({ clock, host: thisHost, steps, log });
}

/** Returns the functions that end a kernel: its requests first, then its parts. */
function endOf(parts: {
  readonly fleet: FleetParts;
  readonly pages: PageParts;
  readonly clock: Clock;
  readonly canned: CannedAnswers;
  readonly punctual: Punctuality;
  /** Closed at the end. null: others go on with it. */
  readonly last: ReusableParts | null;
}): Pick<KernelLifecycle, "drain" | "close"> {
  const { fleet, pages, clock, canned, punctual, last } = parts;
  const { engines, truth, steps } = fleet;
  return {
    async drain(untilUs) {
      while (engines.live > 0 && clock.now() < untilUs) await pause(clock, 10_000);
      engines.abortAll();
    },
    async close() {
      engines.stop();
      punctual.stop();
      pages.shown?.stop();
      if (truth) await Promise.race([truth.close(), pause(clock, TRUTH_CLOSE_MS * 1000)]);
      canned.fixtures?.close();
      canned.dataset?.close();
      clock.close();
      await last?.close();
      steps?.write();
    },
  };
}

/** Creates the history of requests, with their times in the engines. undefined: requests are not kept. */
function historyOf(
  { truth: { keepBodies } }: KernelConfig,
  given: KernelOptions,
  epochUs: number,
): RequestHistory | undefined {
  if (given.history !== undefined || !keepBodies) return given.history;
  const seconds = given.epochSeconds ?? epochSeconds;
  return new RequestHistory(
    () => seconds() * 1000,
    (us) => (epochUs + us) / 1000,
  );
}

/** Returns microseconds since 1970 at the clock's 0. All processes of a server share that of the machine's clock. Other clocks follow from `given`. */
function epochOf(clock: Clock, given: Pick<KernelOptions, "clock" | "epochSeconds">): number {
  if (!given.clock && !given.epochSeconds) return epochUsOf(0);
  return Math.round((given.epochSeconds ?? epochSeconds)() * 1e6) - clock.now();
}

/** Creates the state of the engines, which a script may kill. */
function lifeOf(clock: Clock, end: () => void) {
  const alive = new LiveCell(true);
  const died = Promise.withResolvers<void>();
  return {
    alive,
    died: died.promise,
    die() {
      if (!alive.get()) return;
      alive.set(false);
      end();
      clock.at(clock.now() + WATCHDOG_US, died.resolve);
    },
  };
}

/** Creates the interface through which routes reach the engines. `die` kills them. */
function backendOf({
  clock,
  marks,
  gaps,
  engines,
  die,
}: KernelPressure & { readonly clock: Clock; readonly engines: Fleet; readonly die: () => void }): Backend {
  return {
    submit: (generation, receiver) => engines.submit(generation, receiver),
    nowUs: clock.now.bind(clock),
    ...(clock.catchUp ? { catchUp: clock.catchUp.bind(clock) } : {}),
    spare: () => marks.beforeLongPrompt(() => gaps.long.pass()),
    consumed: gaps.garbage.add,
    read: gaps.garbage.read,
    opened: gaps.garbage.opened,
    crowded: gaps.garbage.crowded,
    inFlight: () => engines.live,
    load: () => {
      const now = engines.views("now");
      const sum = (numberOf: (view: EngineView) => number) => now.reduce((all, view) => all + numberOf(view), 0);
      return { waiting: sum(({ waiting }) => waiting), kvUsage: sum(({ kvUsage }) => kvUsage) / now.length };
    },
    standStill: (still) => engines.standStill(still),
    die: () => clock.soon(die),
    after: (us, act) => clock.at(clock.now() + us, act),
  };
}

export const pause = (clock: Clock, us: number) => new Promise<void>((done) => clock.at(clock.now() + us, done));
