/** Plays the steps of a scenario as they were recorded: in order, several at a time, or in parallel with others. */
import { differences, normal } from "./compare.ts";
import { grpcCall } from "./grpc-wire.ts";
import { type LiveServer, startLive } from "./live.ts";
import type { Dict, Json, Scenario, Step } from "./recordings.ts";
import { parsePage, scrapeOf, shapeOf } from "./scrapes.ts";
import { ConnectionRefused, httpCall } from "./wire.ts";

export interface Verdict {
  readonly name: string;
  /** Differences, or null if the answer is as recorded. */
  readonly wrong: string | null;
}

/** Options for playing scenarios. */
export interface PlayOptions {
  /** True to play each scenario only once. */
  readonly once?: boolean;
  /** True to ignore upper bounds of times. */
  readonly late?: boolean;
}

/**
 * Memory allocated between two scrapes of a watched family: more than the kernel counts per CPU before it reports a change (125
 * pages of 4 KiB).
 */
const HELD_BYTES = 1 << 20;
/** Scenarios played at the same time. They mostly wait, but more of them would delay each other. */
const AT_ONCE = 3;

/**
 * Yields one verdict per answered step or per scenario, in the order of completion. Timed scenarios that fail are played again at
 * the end, one by one with nothing in parallel. `note` gets a line for each of them.
 */
export async function* playAll(
  scenarios: readonly Scenario[],
  models: string | null,
  note: (line: string) => void,
  options: PlayOptions = {},
): AsyncGenerator<Verdict, void> {
  const queue = [...scenarios];
  const again: Scenario[] = [];
  const play = async () => {
    const next = queue.shift();
    if (next === undefined) return null;
    const verdicts = await judged(next, models, options);
    if (options.once || !isTimed(next) || verdicts.every(({ wrong }) => wrong === null)) return verdicts;
    again.push(next);
    return [];
  };
  const lanes = new Map(Array.from({ length: AT_ONCE }, (_, at) => [at, laneOf(at)]));
  async function laneOf(at: number) {
    return { at, verdicts: await play() };
  }
  while (lanes.size > 0) {
    const { at, verdicts } = await Promise.race(lanes.values());
    if (verdicts === null) lanes.delete(at);
    else {
      lanes.set(at, laneOf(at));
      yield* verdicts;
    }
  }
  for (const scenario of again) {
    note(`played once more: ${scenario.name}`);
    yield* await judged(scenario, models, options);
  }
}

/** Reports whether the result depends on time: the scenario says so, or a client cancels after a time. */
const isTimed = ({ timed, steps }: Scenario): boolean =>
  timed === true || steps.some(({ grpc }) => grpc?.cancel_after_ms !== undefined || grpc?.deadline_ms !== undefined);

async function judged(scenario: Scenario, models: string | null, { late = false }: PlayOptions): Promise<Verdict[]> {
  const live = await startLive(scenario, models);
  const player = new Player(scenario, live);
  try {
    await player.play();
  } finally {
    await live.stop();
  }
  const wrongs = scenario.steps.flatMap((step, at) => {
    if (step.expect === undefined) return [];
    const found = differences(step, player.results[at] ?? null, late);
    const page = scenario.pages[step.scrape ?? ""];
    if (page !== undefined) found.push(...pageDifferences(page, player.pages.get(step.scrape!) ?? ""));
    return [{ name: `${scenario.name}#${at}`, wrong: found.length === 0 ? null : found.slice(0, 6).join("\n    ") }];
  });
  if (scenario.bySteps) return wrongs;
  const failed = wrongs.filter(({ wrong }) => wrong !== null);
  const wrong = failed.length === 0 ? null : failed.map(({ name, wrong: why }) => `${name} ${why}`).join("\n  ");
  return [{ name: scenario.name, wrong }];
}

function pageDifferences(want: string, got: string): string[] {
  const [wanted, found] = [shapeOf(want), shapeOf(got)];
  const at = wanted.findIndex((line, index) => line !== found[index]);
  return at < 0 && wanted.length === found.length ? [] : [`page: wanted ${wanted[at]}, got ${found[at]}`];
}

class Player {
  readonly results: Json[];
  readonly pages = new Map<string, string>();
  readonly #scenario: Scenario;
  readonly #live: LiveServer;
  readonly #running: Promise<void>[] = [];
  #rank = 0;

  constructor(scenario: Scenario, live: LiveServer) {
    this.#scenario = scenario;
    this.#live = live;
    this.results = scenario.steps.map(() => null);
  }

  async play(): Promise<void> {
    const zero = performance.now();
    for (const [at, step] of this.#scenario.steps.entries()) {
      if (step.at_ms !== undefined) await Bun.sleep(Math.max(0, zero + step.at_ms - performance.now()));
      if (step.sleep_ms !== undefined) await Bun.sleep(step.sleep_ms);
      await this.#step(step, at);
    }
    await Promise.all(this.#running);
  }

  async #step(step: Step, at: number): Promise<void> {
    if (step.wait_all) {
      await Promise.all(this.#running);
      await Bun.sleep(step.settle_ms ?? 50);
    } else if (step.signal !== undefined) this.#live.signal(step.signal as NodeJS.Signals);
    else if (step.exit_within_ms !== undefined) await this.#exit(step.exit_within_ms, at);
    else if (step.watch !== undefined) {
      const watching = this.#watch(step.watch, at);
      if (step.background_watch) this.#running.push(watching);
      else await watching;
    } else if (step.scrape !== undefined) await this.#scrape(step, at);
    else if (step.http !== undefined || step.grpc !== undefined) {
      const calls = Array.from({ length: step.times ?? 1 }, () => this.#call(step, at));
      if (step.async) this.#running.push(...calls);
      else await Promise.all(calls);
    }
  }

  async #call(step: Step, at: number): Promise<void> {
    const from = performance.now();
    let result: Dict;
    if (step.grpc !== undefined)
      result = await grpcCall(this.#live.grpc, step.grpc).catch(
        (error: Error) => ({ player_error: error.message }) as Dict,
      );
    else {
      const port = step.port === "metrics" ? this.#live.metrics : this.#live.http;
      const whole = await httpCall(port, step.http!, step.close_after_ms).catch(
        (error: Error) => ({ player_error: error.message }) as Dict,
      );
      result = step.only_status ? { status: whole.status!, reason: whole.reason! } : whole;
    }
    const ms = Math.round(performance.now() - from);
    const shown = normal(result, this.#live.repository) as Dict;
    const headers = { ...(shown.headers as Dict | undefined) };
    if (shown.body !== result.body) delete headers["Content-Length"];
    const times = {
      ...(this.#scenario.timed ? { ms } : {}),
      ...(this.#scenario.ranked && step.async ? { finished_as: ++this.#rank } : {}),
    };
    const answer = { ...shown, ...(shown.headers === undefined ? {} : { headers }) };
    if ((step.times ?? 1) === 1) this.results[at] = { ...answer, ...times };
    else this.#gather(answer, at);
  }

  /** Collects the answers of equal requests, with their counts. */
  #gather(answer: Dict, at: number): void {
    const rows = (this.results[at] ?? []) as { answer: Dict; count: number }[];
    const row = rows.find((one) => Bun.deepEquals(one.answer, answer));
    if (row) row.count++;
    else rows.push({ answer, count: 1 });
    this.results[at] = rows as unknown as Json;
  }

  async #page(): Promise<string> {
    const { body } = await httpCall(this.#live.metrics, { method: "GET", path: "/metrics" });
    return String(body);
  }

  async #scrape(step: Step, at: number): Promise<void> {
    if (step.refused) {
      const refused = this.#live.metrics === 0;
      this.results[at] = refused ? { connection: "refused" } : { status: 200 };
      return;
    }
    try {
      const page = await this.#page();
      this.pages.set(step.scrape!, page);
      this.results[at] = normal(scrapeOf(page), this.#live.repository);
    } catch (error) {
      if (!(error instanceof ConnectionRefused)) throw error;
      this.results[at] = { connection: "refused" };
    }
  }

  /** Scrapes often, and records the smallest time between two changes of each family. */
  async #watch({ families, every_ms, for_ms }: NonNullable<Step["watch"]>, at: number): Promise<void> {
    const zero = performance.now();
    const last = new Map<string, string>();
    const changes = new Map(families.map((name) => [name, [] as number[]]));
    const held: Uint8Array[] = [];
    for (let now = 0; now < for_ms; now = performance.now() - zero) {
      for (const { name, samples } of parsePage(await this.#page())) {
        if (!changes.has(name)) continue;
        const text = samples.map(({ value }) => value).join();
        if ((last.get(name) ?? text) !== text) changes.get(name)!.push(Math.round(now));
        last.set(name, text);
      }
      // The gauge of the machine's memory changes only with that memory, which may stand still on an idle machine.
      held.push(new Uint8Array(HELD_BYTES).fill(1));
      await Bun.sleep(every_ms);
    }
    const gaps = [...changes].flatMap(([name, times]) =>
      times.length < 2 ? [] : [[name, Math.min(...times.slice(1).map((time, i) => time - times[i]!))] as const],
    );
    this.results[at] = { changes_at_ms: 0, smallest_gap_ms: Object.fromEntries(gaps) };
  }

  async #exit(withinMs: number, at: number): Promise<void> {
    const from = performance.now();
    const code = await this.#live.ended(withinMs);
    const ms = Math.round(performance.now() - from);
    this.results[at] = code === null ? { still_running: true } : { exit_code: code, ms };
  }
}
