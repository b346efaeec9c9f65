/** What happens in the reader's browser? The data in the page become plots, again whenever their place or the colours change. */
import type uPlot from "uplot";
import type { PageData } from "../plot.ts";
import { widthOf } from "./axes.ts";
import { drawPlot } from "./plot.ts";
import { onChange } from "./theme.ts";
import { drawWaterfall } from "./waterfall.ts";

const data: PageData = JSON.parse(document.getElementById("data")!.textContent!);
const drawn = new Map<Element, uPlot>();

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = drawn.get(target);
    if (plot && plot.width !== widthOf(target)) plot.setSize({ width: widthOf(target), height: plot.height });
  }
});

function draw(): void {
  for (const plot of drawn.values()) plot.destroy();
  drawn.clear();
  for (const place of document.querySelectorAll("[data-plot]")) {
    const id = place.getAttribute("data-plot");
    const plot = data.plots.find((one) => one.id === id);
    if (plot) drawn.set(place, drawPlot(plot, place));
    else if (data.waterfall) drawn.set(place, drawWaterfall(data.waterfall, place));
    sizes.observe(place);
  }
}

draw();
onChange(draw);
