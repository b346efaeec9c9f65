/** Settings of the demo: the sliders with their ranges, and the text of all settings in the page's address. */

export interface Slider {
  readonly label: string;
  readonly unit: string;
  readonly least: number;
  readonly most: number;
  readonly step: number;
  readonly initial: number;
  /** Effect of the slider, as a hover text. */
  readonly about: string;
}

export const SLIDERS = {
  load: {
    ...{ label: "Load", unit: "requests/s", least: 0, most: 100, step: 1, initial: 24 },
    about: "Mean arrivals per second. They come in waves.",
  },
  budget: {
    ...{ label: "Token budget", unit: "tokens/step", least: 256, most: 8192, step: 256, initial: 2048 },
    about: "Most tokens in one step, of prompts and answers together: --max-num-batched-tokens.",
  },
  blocks: {
    ...{ label: "KV blocks", unit: "of 16 tokens", least: 300, most: 6000, step: 100, initial: 2000 },
    about: "Size of the KV cache: --num-gpu-blocks-override.",
  },
  watermark: {
    ...{ label: "Preemption guard", unit: "% kept free", least: 0, most: 30, step: 1, initial: 0 },
    about: "Share of the blocks that admission leaves free, so that fewer requests are preempted: --watermark.",
  },
} as const satisfies Readonly<Record<string, Slider>>;

export type SliderName = keyof typeof SLIDERS;
export const SLIDER_NAMES = Object.keys(SLIDERS) as SliderName[];

export type Settings = Readonly<Record<SliderName | "seed", number>>;

export const SEED_MOST = 2 ** 32 - 1;
const INITIAL_SEED = 7;

/** Reads a number of the address. Rounds it to the nearest step of the slider; returns the initial value for other texts. */
function sliderValue({ least, most, step, initial }: Slider, text: string | null): number {
  const value = text === null || text.trim() === "" ? Number.NaN : Number(text);
  if (!Number.isFinite(value)) return initial;
  return Math.min(most, Math.max(least, least + Math.round((value - least) / step) * step));
}

/** Reads a seed. Returns null for a text that is not a whole number of 32 bits. */
export function readSeed(text: string): number | null {
  return /^\d{1,10}$/.test(text) && Number(text) <= SEED_MOST ? Number(text) : null;
}

/** Reads settings from the query of an address, such as `?seed=3&load=40`. Wrong and missing values have their defaults. */
export function readSettings(query: string): Settings {
  const texts = new URLSearchParams(query);
  const values = SLIDER_NAMES.map((name) => [name, sliderValue(SLIDERS[name], texts.get(name))]);
  return { ...Object.fromEntries(values), seed: readSeed(texts.get("seed") ?? "") ?? INITIAL_SEED };
}

/** Returns the query for settings: the seed, and the sliders that were moved. Keeps other parameters of the old query. */
export function writeSettings(settings: Settings, query: string): string {
  const texts = new URLSearchParams(query);
  texts.set("seed", String(settings.seed));
  for (const name of SLIDER_NAMES) {
    if (settings[name] === SLIDERS[name].initial) texts.delete(name);
    else texts.set(name, String(settings[name]));
  }
  return `?${texts}`;
}
