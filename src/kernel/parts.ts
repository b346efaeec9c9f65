/** What does every server have, whatever its role? Core, engines, clock, text, accounts, metrics, truth, and their end. */

import { type Clock, epochSeconds, epochUsOf, LeasedClock, WallClock } from "../base/clock.ts";
import { LiveCell, type LiveValue } from "../base/live-value.ts";
import { type Ids, idsOf, mix, type Random, randomSeed, seeded } from "../base/random.ts";
import { createAlarm } from "../base/time/alarm.ts";
import { DueTime } from "../base/time/due-time.ts";
import { logUnexpected } from "../base/unexpected.ts";
import type { EngineView } from "../engine/interface/types.ts";
import type { Iterations } from "../engine/iterations.ts";
import { Punctuality } from "../engine/lateness/punctuality.ts";
import { logStatistics } from "../metrics/log-line.ts";
import type { HttpRoute } from "../metrics/rows/http-counts.ts";
import type { NaturalLength } from "../text/answers/answers.ts";
import type { AnswerRules } from "../text/canned/fixtures/match.ts";
import type { LaidDown } from "../text/canned/laid-down.ts";
import type { TextModel } from "../text/text-model.ts";
import { type Accounting, Accounts, HttpAccounts, watched } from "./accounting.ts";
import type { Backend } from "./backend.ts";
import { throwUncaught } from "./broken-engine.ts";
import { enginePartsOf, type FleetParts } from "./engines.ts";
import { type Gaps, gapsOf } from "./gaps.ts";
import type { KernelConfig } from "./kernel-config.ts";
import { type Admin, LiveSettings } from "./live-settings.ts";
import { Marks, sampleEventLoop, thisHost } from "./marks.ts";
import { type PageParts, pagePartsOf } from "./pages.ts";
import type { Place } from "./place.ts";
import { RequestHistory } from "./request-history.ts";
import { type StreamWrites, streamWritesOf } from "./stream-writes.ts";
import { builtFiles, laidFor, lengthsOf, markedText, textOf } from "./text.ts";

/** A disk that hangs must not hold the exit. */
const TRUTH_CLOSE_MS = 5000;
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
  /** Absent: the wall's, with an alarm thread. */
  readonly clock?: Clock | undefined;
  /** Seconds since 1970. Absent: the wall's. */
  readonly epochSeconds?: (() => number) | undefined;
  /** Absent: drawn from `--seed` where that is given, else by chance. */
  readonly newId?: Ids | undefined;
  /** Answers that the program around the server gives, before every other order. */
  readonly rules?: AnswerRules | undefined;
  /** Keeps what clients send. Absent: only with `--keep-bodies` anything is kept. */
  readonly history?: RequestHistory;
  /**
   * Called when an engine cannot go on: a `CoreTrap`, a `WebAssembly.RuntimeError` or an `EngineBroken`. Absent: it is
   * thrown as an uncaught error of the process.
   */
  readonly broke?: ((error: Error) => void) | undefined;
}

/** What stays where a server begins anew: its clock with the alarm, its text with the encoder's thread, its files. */
export interface Lasting {
  readonly clock: Clock;
  readonly built: Awaited<ReturnType<typeof builtFiles>>;
  readonly text: TextModel;
  readonly streamWrites: StreamWrites;
  close(): void;
}

/** Rejects with a `UserError` if an option turns out wrong. */
export async function lastingOf(config: KernelConfig, options: AppOptions): Promise<Lasting> {
  const built = await builtFiles(config.engine);
  const due = new DueTime();
  const clock = options.clock ?? new WallClock((ring, died) => createAlarm(ring, died, due), timerFailed);
  const text = await textOf(config.text, built, due);
  const streamWrites = await streamWritesOf(config);
  return {
    clock,
    built,
    text,
    streamWrites,
    close() {
      text.encoder.close();
      clock.close();
    },
  };
}

const timerFailed = (error: unknown) => logUnexpected("a timer failed", error);

export interface Parts<C extends KernelConfig = KernelConfig> extends FleetParts, PageParts {
  /** The configuration of the start. `live` has the values that changed since. */
  readonly config: C;
  readonly live: LiveSettings;
  /** What the role trtllm-serve learns of its engine; null: another role. */
  readonly iterations: Iterations | null;
  readonly admin: Admin | undefined;
  readonly place: Place | undefined;
  readonly clock: Clock;
  /** The listeners' clock: they outlive these parts. */
  readonly lastingClock: Clock;
  readonly rules: AnswerRules | undefined;
  readonly history: RequestHistory | undefined;
  readonly epochSeconds: () => number;
  /** Microseconds since 1970 at the clock's 0. */
  readonly epochUs: number;
  readonly newId: Ids;
  /** Seeds for requests that bring none. */
  readonly nextSeed: Random;
  readonly log: (line: string) => void;
  readonly marks: Marks;
  readonly gaps: Gaps;
  readonly text: TextModel;
  readonly laid: LaidDown;
  /** Reads fixtures anew. */
  readonly openLaid: (wire: { readonly fixtures: string }) => Promise<LaidDown>;
  readonly naturalLength: NaturalLength;
  readonly streamWrites: StreamWrites;
  readonly accounting: Accounting;
  readonly httpAccounts: HttpAccounts;
  readonly backend: Backend;
  /** False once the engine has died. */
  readonly alive: LiveValue<boolean>;
  /** Settles some seconds after a script has had the engine die. */
  readonly died: Promise<void>;
  /** Waits until nothing runs, at most till `untilUs`; then ends what does, with reason abort. */
  drain(untilUs: number): Promise<void>;
  /** Ends all parts. Listeners have been closed. */
  close(): Promise<void>;
}

/**
 * `routes`: routes of the server whose HTTP requests are counted. `kept`: parts that outlive these and serve the next ones.
 * Rejects as `lastingOf` does.
 */
export async function createParts<C extends KernelConfig>(
  config: C,
  routes: readonly HttpRoute[],
  options: AppOptions,
  kept?: Lasting,
): Promise<Parts<C>> {
  const { place, admin } = options;
  const live = new LiveSettings(config);
  const lasting = kept ?? (await lastingOf(config, options));
  const { built, text: unmarked, streamWrites } = lasting;
  const clock = kept ? new LeasedClock(kept.clock) : lasting.clock;
  const epochUs = epochOf(clock, options);
  const punctual = punctualityOf(clock, config.logs.disableLogStats ? null : options.log, () => fleet.engines);
  const marks = new Marks(punctual.causes, clock);
  const log = marks.log(options.log);
  const text = markedText(unmarked, marks);
  const gaps = gapsOf(clock, marks);
  const first = (place?.index ?? 0) === 0;
  const openLaid = (files: Parameters<typeof laidFor>[0]) =>
    laidFor(files, text, { first, log, gap: async () => void (await gaps.long.pass()), nowUs: () => clock.now() });
  const laid = await openLaid({ ...config.text, ...config.faults });
  const naturalLength = await lengthsOf(config);
  const iterations = await iterationsOf(config);
  const fleet = enginePartsOf({
    iterations,
    config,
    core: built.core,
    text,
    punctual,
    marks,
    log,
    stepLog: options.stepLog,
    place,
    epochUs,
    lanes: streamWrites.lanes,
    broke: options.broke ?? throwUncaught,
    loopObservers: [
      { updating: (nowUs) => pages.beforeUpdate(nowUs) },
      ...(place ? [{ moved: (idle: boolean) => pages.shown?.moved(idle) }] : []),
    ],
  });
  const moved = () => pages.shown?.moved();
  const httpAccounts = new HttpAccounts(routes, clock.now.bind(clock), moved);
  const accounts = new Accounts(httpAccounts);
  const pages = await pagePartsOf({ ...fleet, config, streamWrites, routes, accounts, clock, marks, place, epochUs });
  const life = lifeOf(clock, () => fleet.engines.die());
  if (!config.logs.disableLogStats) logStatistics(clock, pages.snapshot, fleet.engineFirst, log);
  sampleEventLoop(clock, (us) => {
    fleet.engines.delayed(us);
    moved();
  });
  return {
    ...fleet,
    ...pages,
    iterations,
    config,
    ...{ live, admin, place },
    ...{ clock, lastingClock: lasting.clock, rules: options.rules, history: historyOf(config, options, epochUs) },
    epochSeconds: options.epochSeconds ?? epochSeconds,
    epochUs,
    newId: options.newId ?? idsOf(config.seed === null ? null : mix(config.seed, place?.index ?? 0)),
    // In order of arrival they repeat from one start to the next.
    nextSeed: config.seed === null ? randomSeed : seeded(config.seed + fleet.engineFirst),
    log,
    marks,
    gaps,
    text,
    laid,
    openLaid,
    naturalLength,
    streamWrites,
    accounting: pages.shown ? watched(accounts, pages.shown) : accounts,
    httpAccounts,
    backend: backendOf({ clock, marks, gaps, engines: fleet.engines, die: life.die }),
    alive: life.alive,
    died: life.died,
    ...endOf({ ...fleet, pages, clock, laid, punctual, last: kept ? null : lasting }),
  };
}

/** Loaded for that role alone. */
async function iterationsOf(config: KernelConfig): Promise<Iterations | null> {
  return config.trtllm ? new (await import("../engine/iterations.ts")).Iterations(config.engine, config.trtllm) : null;
}

function punctualityOf(clock: Clock, log: AppOptions["log"] | null, engines: () => Parts["engines"]): Punctuality {
  const steps = () => engines().latenessView().stepStartLateness.count;
  return new Punctuality({ clock, host: thisHost, steps, log });
}

/** How a server ends: its requests first, then its parts. */
function endOf(
  parts: Pick<Parts, "engines" | "truth" | "steps" | "clock" | "laid"> & {
    readonly pages: PageParts;
    readonly punctual: Punctuality;
    /** Ends with them; null: others go on with it. */
    readonly last: Lasting | null;
  },
): Pick<Parts, "drain" | "close"> {
  const { engines, truth, steps, clock, laid, pages, punctual, last } = parts;
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
      laid.fixtures?.close();
      laid.dataset?.close();
      clock.close();
      last?.close();
      steps?.write();
    },
  };
}

/** Whoever keeps what clients send, with times of theirs and of their ways through the engines; undefined: nobody does. */
function historyOf(
  { truth: { keepBodies } }: KernelConfig,
  given: AppOptions,
  epochUs: number,
): RequestHistory | undefined {
  if (given.history !== undefined || !keepBodies) return given.history;
  const seconds = given.epochSeconds ?? epochSeconds;
  return new RequestHistory(
    () => seconds() * 1000,
    (us) => (epochUs + us) / 1000,
  );
}

/** Microseconds since 1970 at the clock's 0. The wall's is that of all processes of a server; others follow from what was handed in. */
function epochOf(clock: Clock, given: Pick<AppOptions, "clock" | "epochSeconds">): number {
  if (!given.clock && !given.epochSeconds) return epochUsOf(0);
  return Math.round((given.epochSeconds ?? epochSeconds)() * 1e6) - clock.now();
}

/** The engine's life, which a script may end. */
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

/** How a front reaches the engines. */
function backendOf({
  clock,
  marks,
  gaps,
  engines,
  die,
}: Pick<Parts, "clock" | "marks" | "gaps" | "engines"> & { die: () => void }): Backend {
  return {
    submit: (generation, receiver) => engines.submit(generation, receiver),
    nowUs: clock.now.bind(clock),
    ...(clock.catchUp ? { catchUp: clock.catchUp.bind(clock) } : {}),
    spare: () => marks.beforeLongPrompt(() => gaps.long.pass()),
    consumed: gaps.garbage.add,
    read: gaps.garbage.read,
    opened: gaps.garbage.opened,
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
