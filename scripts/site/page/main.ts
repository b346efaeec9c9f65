/** The demo on the first page: runs the engine in simulated time, frame by frame, and draws it. */
import { readSeed, readSettings, SEED_MOST, type Settings, writeSettings } from "../demo/settings.ts";
import { Simulation } from "../demo/simulation.ts";
import { Charts, WINDOW_US } from "./charts.ts";
import { currentPalette } from "./palette.ts";
import { BlocksPanel, drawQueue, drawRunning } from "./panels.ts";
import { element, type PictureName, pictureOf, slidersOf, tilesOf } from "./parts.ts";
import { fit, type Surface, surfaceOf } from "./surface.ts";

/** Most simulated time per frame, so that a page that was hidden does not catch up. */
const FRAME_MOST_US = 100_000;
/** Milliseconds per frame in which steps are computed: usually, and while the charts fill after a change of the settings. */
const FRAME_MS = 3;
const FILL_MS = 10;
/** Milliseconds between two updates of the numbers. */
const NUMBERS_MS = 250;
const SPEEDS = [0.25, 1, 4];

/** Shows the demo in `place`. `coreAddress`: address of core.wasm. Returns a function that ends it. */
export async function start(place: HTMLElement, coreAddress: string): Promise<() => void> {
  const core = new Uint8Array(await (await fetch(coreAddress)).arrayBuffer());
  const demo = new Demo(place, core);
  await demo.restart();
  return () => demo.stop();
}

class Demo {
  #settings: Settings = readSettings(location.search);
  #simulation: Simulation | null = null;
  #generation = 0;
  /** Simulated time up to which steps run. */
  #untilUs = 0;
  #lastMs = 0;
  #numbersMs = 0;
  #isPaused = matchMedia("(prefers-reduced-motion: reduce)").matches;
  #isVisible = true;
  #speed = 1;
  #frame = 0;
  readonly #charts = new Charts();
  readonly #blocks = new BlocksPanel();
  readonly #tiles = tilesOf();
  readonly #surfaces: Readonly<Record<PictureName, Surface>>;
  readonly #sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) fit(target);
  });
  readonly #views = new IntersectionObserver((entries) => {
    this.#isVisible = entries.at(-1)!.isIntersecting;
  });

  constructor(
    private readonly place: HTMLElement,
    private readonly core: Uint8Array,
  ) {
    const names: readonly PictureName[] = ["queue", "running", "blocks", "requests", "tokens", "pool"];
    const pictures = names.map((name) => ({ name, ...pictureOf(name) }));
    const intro = element(
      "p",
      {},
      "vLLM's scheduler in your browser: this is the engine of the package, in simulated time, without a server.",
    );
    place.append(
      element("h2", {}, "The engine at work"),
      intro,
      slidersOf(this.#settings, (name, value) => this.#change({ [name]: value })),
      this.#buttons(),
      this.#tiles.tiles,
      element("div", { class: "pictures" }, ...pictures.map(({ figure }) => figure)),
    );
    const surfaces = pictures.map(({ name, canvas }) => [name, surfaceOf(canvas, this.#sizes)]);
    this.#surfaces = Object.fromEntries(surfaces);
    this.#views.observe(place);
    this.#frame = requestAnimationFrame(this.#tick);
  }

  /** Starts a new simulation at time 0 with the current settings. */
  async restart(): Promise<void> {
    const generation = ++this.#generation;
    const simulation = await Simulation.create(this.#settings, this.core);
    if (generation !== this.#generation) return simulation.close();
    this.#simulation?.close();
    this.#simulation = simulation;
    this.#untilUs = WINDOW_US;
    Object.assign(this.place.dataset, { open: 0, filled: false });
  }

  stop(): void {
    this.#generation++;
    cancelAnimationFrame(this.#frame);
    this.#sizes.disconnect();
    this.#views.disconnect();
    this.#simulation?.close();
    this.place.replaceChildren();
  }

  #change(some: Partial<Settings>): void {
    this.#settings = { ...this.#settings, ...some };
    history.replaceState(history.state, "", writeSettings(this.#settings, location.search) + location.hash);
    void this.restart();
  }

  #buttons(): HTMLElement {
    const seed = element("input", { type: "text", inputmode: "numeric", name: "seed", size: "10" });
    seed.value = String(this.#settings.seed);
    seed.addEventListener("change", () => {
      const value = readSeed(seed.value.trim());
      if (value === null) seed.value = String(this.#settings.seed);
      else this.#change({ seed: value });
    });
    const draw = element("button", { type: "button", title: "Other requests" }, "New seed");
    draw.addEventListener("click", () => {
      seed.value = String(Math.floor(Math.random() * (SEED_MOST + 1)));
      this.#change({ seed: Number(seed.value) });
    });
    const pause = element("button", { type: "button", name: "pause" });
    const showPause = () => {
      pause.textContent = this.#isPaused ? "Continue" : "Pause";
    };
    pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused;
      showPause();
    });
    showPause();
    const speed = element("select", { name: "speed", title: "Simulated seconds per second" });
    speed.append(...SPEEDS.map((factor) => new Option(`${factor} ×`, String(factor), factor === 1, factor === 1)));
    speed.addEventListener("change", () => {
      this.#speed = Number(speed.value);
    });
    const parts = [element("label", {}, "Seed ", seed), draw, element("label", {}, "Speed ", speed), pause];
    return element("div", { class: "buttons" }, ...parts);
  }

  readonly #tick = (nowMs: number): void => {
    this.#frame = requestAnimationFrame(this.#tick);
    const passedUs = Math.min(FRAME_MOST_US, (nowMs - this.#lastMs) * 1000);
    this.#lastMs = nowMs;
    const simulation = this.#simulation;
    if (simulation === null || !this.#isVisible) return;
    const isFilling = simulation.nowUs < WINDOW_US;
    if (!isFilling && !this.#isPaused) this.#untilUs += passedUs * this.#speed;
    const endMs = performance.now() + (isFilling ? FILL_MS : FRAME_MS);
    simulation.advance(this.#untilUs, () => performance.now() < endMs);
    // On a slow machine simulated time passes more slowly.
    if (!isFilling) this.#untilUs = Math.min(this.#untilUs, simulation.nowUs + FRAME_MOST_US);
    this.#draw(simulation);
    if (nowMs - this.#numbersMs < NUMBERS_MS) return;
    this.#numbersMs = nowMs;
    this.#showNumbers(simulation);
  };

  #draw(simulation: Simulation): void {
    const palette = currentPalette();
    const { queue, running, blocks, requests, tokens, pool } = this.#surfaces;
    drawQueue(queue, simulation, palette);
    drawRunning(running, simulation, palette);
    this.#blocks.draw(blocks, simulation, palette);
    const charts = this.#charts;
    charts.read(simulation.history, Math.max(WINDOW_US, this.#shownUs(simulation)), requests.width);
    charts.drawRequests(requests, palette);
    charts.drawTokens(tokens, palette, this.#settings.budget);
    charts.drawBlocks(pool, palette, simulation.blocks.owners.length);
  }

  /** Time at the right end of the charts. The engine may be a step ahead of the page. */
  #shownUs(simulation: Simulation): number {
    return Math.min(this.#untilUs, simulation.nowUs);
  }

  #showNumbers(simulation: Simulation): void {
    const { history, open, blocks, preemptions, turnedAway, ttftsUs, itlsUs } = simulation;
    const last = history.count - 1;
    const now = (name: "running" | "waiting") => (last < 0 ? 0 : history.value(name, last));
    Object.assign(this.place.dataset, { open: open.length, filled: simulation.nowUs >= WINDOW_US });
    const share = Math.round((100 * (blocks.owners.length - blocks.free)) / blocks.owners.length);
    this.#tiles.show({
      running: String(now("running")),
      waiting: String(now("waiting")),
      blocks: `${share} %`,
      tokens: tokensPerSecond(simulation).toLocaleString("en"),
      ttft: milliseconds(medianOf(ttftsUs)),
      itl: milliseconds(medianOf(itlsUs)),
      preemptions: preemptions.toLocaleString("en"),
      turnedAway: turnedAway.toLocaleString("en"),
    });
  }
}

/** Returns the number of output tokens in the last simulated second. */
function tokensPerSecond({ history, nowUs }: Simulation): number {
  let tokens = 0;
  for (let step = history.count - 1; step >= history.first; step--) {
    if (history.value("endUs", step) < nowUs - 1e6) break;
    tokens += history.value("tokens", step);
  }
  return tokens;
}

/** Returns the median, or null for an empty list. */
function medianOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : Float64Array.from(values).sort()[values.length >> 1]!;
}

/** Formats microseconds as milliseconds or seconds. */
function milliseconds(us: number | null): string {
  if (us === null) return "–";
  return us < 1e6 ? `${(us / 1000).toFixed(us < 1e5 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}
