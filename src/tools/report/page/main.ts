/**
 * The page's script in the browser. Draws the plots from the data in the page, and again when their size or the theme changes.
 */
import type uPlot from "uplot";
import type { PageData } from "../plot.ts";
import { widthOf } from "./axes.ts";
import { drawPlot } from "./plot.ts";
import { onChange } from "./theme.ts";
import { drawWaterfall } from "./waterfall.ts";

const data: PageData = JSON.parse(document.getElementById("data")!.textContent!);
const charts = new Map<Element, uPlot>();

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = charts.get(target);
    if (plot && plot.width !== widthOf(target)) plot.setSize({ width: widthOf(target), height: plot.height });
  }
});

function draw(): void {
  for (const plot of charts.values()) plot.destroy();
  charts.clear();
  for (const place of document.querySelectorAll("[data-plot]")) {
    const id = place.getAttribute("data-plot");
    const plot = data.plots.find((candidate) => candidate.id === id);
    if (plot) charts.set(place, drawPlot(plot, place));
    else if (data.waterfall) charts.set(place, drawWaterfall(data.waterfall, place));
    sizes.observe(place);
  }
}

draw();
onChange(draw);
