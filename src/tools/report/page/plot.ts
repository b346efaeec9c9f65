/** Draws a plot with uPlot. A drag zooms, a double click resets the zoom. */
import uPlot from "uplot";
import type { Plot, PlotLine } from "../plot.ts";
import { axisOf, drawMarks, scaleOf, widthOf } from "./axes.ts";
import { PADDING, plotNumber } from "./format.ts";
import { color, faded } from "./theme.ts";

const HEIGHT = 260;

export function drawPlot(plot: Plot, place: Element): uPlot {
  const options: uPlot.Options = {
    width: widthOf(place),
    height: HEIGHT,
    padding: PADDING,
    scales: { x: scaleOf(plot.x), y: scaleOf(plot.y) },
    axes: [axisOf(plot.x, 2), axisOf(plot.y, 3)],
    series: [
      { label: plot.x.label, value: (_, value) => plotNumber(value, plot.x) },
      ...plot.lines.map((line) => seriesOf(line, plot)),
    ],
    legend: { markers: { width: 0, fill: (_, at) => color(plot.lines[at - 1]?.color ?? "grey") } },
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    hooks: { drawAxes: [(chart) => drawMarks(chart, plot.marks)] },
  };
  return new uPlot(options, plot.data as uPlot.AlignedData, place as HTMLElement);
}

function seriesOf(line: PlotLine, plot: Plot): uPlot.Series {
  const stroke = color(line.color);
  const common = { label: line.label, value: (_: uPlot, value: number | null) => plotNumber(value, plot.y) };
  if (line.kind === "dots") {
    const points = { show: true, size: 4, width: 0, fill: faded(stroke, 0.7), stroke: faded(stroke, 0.7) };
    return { ...common, stroke, paths: () => null, points };
  }
  return {
    ...common,
    stroke,
    width: 2,
    spanGaps: true,
    points: { show: line.kind === "line" && plot.data[0]!.length < 16, size: 6, fill: stroke },
    ...(line.dash ? { dash: [6, 4] } : {}),
    ...(line.kind === "area" ? { fill: faded(stroke, 0.14) } : {}),
    ...(line.kind === "step" ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
  };
}
