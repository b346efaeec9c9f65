/** Which colours hold: those of the reader's theme, or the light ones on paper? */
import type { Color } from "../plot.ts";

/** A colour as `style.css` has it, or one of its names for text and lines. */
export function color(name: Color | "text" | "muted" | "grid" | "panel"): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** `#rrggbb` with an opacity from 0 to 1. */
export function faded(hex: string, opacity: number): string {
  return `${hex}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0")}`;
}

/** Called whenever the colours change: on paper `style.css` takes the light ones. */
export function onChange(redraw: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    redraw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    redraw();
  });
}
