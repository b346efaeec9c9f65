/** Colours of the demo's pictures, for the light and the dark theme. */

/** Number of different colours for requests. */
const HUES = 24;
/** Number of frames of animation in which a KV block fades to the colour of a free block after its request has returned it. */
export const FADES = 24;

export interface Palette {
  readonly text: string;
  readonly muted: string;
  readonly grid: string;
  readonly track: string;
  readonly running: string;
  readonly waiting: string;
  readonly preempted: string;
  readonly prompt: string;
  readonly answer: string;
  readonly blocks: string;
  /** The HUES colours of requests, as CSS. `colorOf` returns the index for a request. */
  readonly requests: readonly string[];
  /**
   * Pixels of image data with these colours, for each step of fading: `words[fade][colour]`. At fade 0 a pixel has the colour of
   * a free block, at FADES the colour of its request.
   */
  readonly words: readonly Uint32Array[];
  /** Colour of the gaps between KV blocks. */
  readonly gap: string;
}

/**
 * Returns the index of a request's colour. Two requests that arrive one after the other get very different colours. `order`: the
 * request's place in the order of arrival.
 */
export const colorOf = (order: number) => (order * 7) % HUES;

type Rgb = readonly [red: number, green: number, blue: number];

/** Converts a colour with a hue in degrees, saturation and lightness from 0 to 1. */
function rgbOf(hue: number, saturation: number, lightness: number): Rgb {
  const part = (shift: number) => {
    const at = (shift + hue / 30) % 12;
    const chroma = saturation * Math.min(lightness, 1 - lightness);
    return Math.round(255 * (lightness - chroma * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return [part(0), part(8), part(4)];
}

/** Mixes two colours into a pixel of image data: red in the lowest byte, opaque. `share`: part of the second colour, 0 to 1. */
function wordOf(from: Rgb, to: Rgb, share: number): number {
  const [red, green, blue] = from.map((part, at) => Math.round(part + (to[at]! - part) * share));
  return ((255 << 24) | (blue! << 16) | (green! << 8) | red!) >>> 0;
}

function paletteOf(named: Omit<Palette, "requests" | "words">, free: Rgb, light: number): Palette {
  // Cool colours are more frequent, so that the warm ones of waiting and preempted requests stand out.
  const colors = Array.from({ length: HUES }, (_, at) => rgbOf(150 + (at * 190) / HUES, 0.62, light - 0.08 * (at % 3)));
  const words = Array.from({ length: FADES + 1 }, (_, fade) =>
    Uint32Array.from(colors, (color) => wordOf(free, color, fade / FADES)),
  );
  return { ...named, words, requests: colors.map((color) => `rgb(${color.join(" ")})`) };
}

const LIGHT = paletteOf(
  {
    ...{ text: "#1b2230", muted: "#667085", grid: "#e4e8ee", track: "#edf0f4", gap: "#ffffff" },
    ...{ running: "#2f6fde", waiting: "#e9a23b", preempted: "#d5383f" },
    ...{ prompt: "#8454d6", answer: "#2fa58c", blocks: "#2f6fde" },
  },
  [237, 240, 244],
  0.6,
);
const DARK = paletteOf(
  {
    ...{ text: "#e6eaf1", muted: "#95a0b3", grid: "#2a303b", track: "#262c36", gap: "#1b1f27" },
    ...{ running: "#6ea0ff", waiting: "#f0b458", preempted: "#ff6b6e" },
    ...{ prompt: "#b08cf5", answer: "#4cc7ac", blocks: "#6ea0ff" },
  },
  [38, 44, 54],
  0.64,
);

/** Returns the colours of the page's current theme. */
export const currentPalette = () => (document.documentElement.classList.contains("dark") ? DARK : LIGHT);
