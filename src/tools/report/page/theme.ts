/** Colours of the current theme. Printing uses the light theme. */
import type { Color } from "../plot.ts";

/** Returns a colour of `style.css`. */
export function color(name: Color | "text" | "muted" | "grid" | "panel"): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Adds an opacity from 0 to 1 to a colour `#rrggbb`. */
export function faded(hex: string, opacity: number): string {
  return `${hex}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0")}`;
}

/** Calls `redraw` whenever the colours change. For printing, `style.css` uses the light colours. */
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
