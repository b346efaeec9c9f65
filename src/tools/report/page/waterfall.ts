/** Draws the timeline: one bar per request, with its numbers in a tooltip. */
import uPlot from "uplot";
import type { Waterfall } from "../plot.ts";
import { axisOf, scaleOf, widthOf } from "./axes.ts";
import { PADDING, plotNumber } from "./format.ts";
import { color, faded } from "./theme.ts";

const LEAST_HEIGHT = 220;
const MOST_HEIGHT = 900;
/** Height on paper in pixels, so that title and bars fit on one page. */
const PAPER_HEIGHT = 620;
const ROW_PX = 7;
/** Minimum width of a bar in pixels. A narrower bar would be invisible. */
const LEAST_PX = 1;

export function drawWaterfall(data: Waterfall, place: Element): uPlot {
  const count = data.ids.length;
  const most = document.documentElement.classList.contains("paper") ? PAPER_HEIGHT : MOST_HEIGHT;
  const height = Math.min(most, Math.max(LEAST_HEIGHT, count * ROW_PX + 70));
  const times = [data.intended, data.send, data.end, data.last].flat().filter((time) => time !== null);
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const x = { label: "seconds" };
  const y = { label: "requests, in order of sending", whole: true };
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const options: uPlot.Options = {
    width: widthOf(place),
    height,
    padding: PADDING,
    scales: {
      x: { time: false, range: (_, least, most) => (Number.isFinite(least) ? [least, most] : [from, to]) },
      y: { ...scaleOf(y), dir: -1, range: (_, least, most) => [Math.max(-1, least), Math.min(count, most)] },
    },
    axes: [
      axisOf(x, 2),
      { ...axisOf(y, 3), values: (_, splits) => splits.map((row) => (row >= 0 ? plotNumber(row) : "")) },
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    legend: { show: false },
    cursor: { points: { show: false }, drag: { x: true, y: true, uni: 30 } },
    hooks: {
      draw: [(plot) => drawRows(plot, data)],
      setCursor: [(plot) => showTip(plot, data, tip)],
    },
  };
  const plot = new uPlot(
    options,
    [
      [from, to],
      [-1, count],
    ],
    place as HTMLElement,
  );
  plot.over.appendChild(tip);
  return plot;
}

function drawRows(plot: uPlot, data: Waterfall): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const pitch = Math.abs(plot.valToPos(1, "y", true) - plot.valToPos(0, "y", true));
  const thickness = Math.max(ratio, Math.min(pitch * 0.72, 18 * ratio));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const bar = (row: number, from: number | null, to: number | null, shade: string) => {
    if (from === null || to === null || to < from) return;
    const left = plot.valToPos(from, "x", true);
    const wide = Math.max(LEAST_PX * ratio, plot.valToPos(to, "x", true) - left);
    ctx.fillStyle = shade;
    ctx.fillRect(left, plot.valToPos(row, "y", true) - thickness / 2, wide, thickness);
  };
  const shades = {
    late: color("grey"),
    queue: color("purple"),
    prefill: color("blue"),
    decode: faded(color("green"), 0.6),
  };
  data.ids.forEach((_, row) => {
    const [send, first] = [data.send[row]!, data.first[row]!];
    bar(row, data.intended[row]!, send, shades.late);
    bar(row, send, data.scheduled[row]!, shades.queue);
    bar(row, data.scheduled[row] ?? send, first ?? data.end[row]!, shades.prefill);
    bar(row, first, data.last[row]!, shades.decode);
  });
  const [, worse] = data.thresholdsMs;
  const { row, at, gapMs } = data.outliers;
  const [mild, bad] = [color("orange"), color("red")];
  const tick = Math.max(1.5 * ratio, Math.min(thickness * 0.35, 2 * ratio));
  for (let i = 0; i < row.length; i++) {
    ctx.fillStyle = gapMs[i]! >= worse ? bad : mild;
    ctx.fillRect(
      plot.valToPos(at[i]!, "x", true) - tick / 2,
      plot.valToPos(row[i]!, "y", true) - thickness / 2,
      tick,
      thickness,
    );
  }
  ctx.strokeStyle = bad;
  ctx.lineWidth = 2 * ratio;
  data.failure.forEach((failure, at) => {
    if (failure === "") return;
    const x = plot.valToPos(data.end[at] ?? data.last[at] ?? data.send[at] ?? 0, "x", true);
    const y = plot.valToPos(at, "y", true);
    const arm = Math.max(3 * ratio, thickness / 2);
    ctx.beginPath();
    ctx.moveTo(x - arm, y - arm);
    ctx.lineTo(x + arm, y + arm);
    ctx.moveTo(x - arm, y + arm);
    ctx.lineTo(x + arm, y - arm);
    ctx.stroke();
  });
  ctx.restore();
}

function showTip(plot: uPlot, data: Waterfall, tip: HTMLElement): void {
  const { left = -1, top = -1 } = plot.cursor;
  const row = top < 0 ? -1 : Math.round(plot.posToVal(top, "y"));
  tip.hidden = left < 0 || row < 0 || row >= data.ids.length;
  if (tip.hidden) return;
  const ms = (from: number | null, to: number | null) =>
    from === null || to === null ? "–" : `${plotNumber((to - from) * 1000)} ms`;
  const at = <T>(values: readonly T[]) => values[row]!;
  const lines = [
    at(data.ids),
    `in ${plotNumber(at(data.inputTokens))}, out ${plotNumber(at(data.outputTokens))} tokens`,
    `sent ${ms(at(data.intended), at(data.send))} late`,
    ...(at(data.scheduled) === null ? [] : [`queue ${ms(at(data.send), at(data.scheduled))}`]),
    ...(at(data.first) === null ? [] : [`TTFT ${ms(at(data.send), at(data.first))}`]),
    `E2E ${ms(at(data.send), at(data.last))}`,
    at(data.failure),
  ];
  tip.textContent = lines.filter(Boolean).join("\n");
  const { width, height } = plot.over.getBoundingClientRect();
  tip.style.left = `${left + 14 + tip.offsetWidth > width ? left - 14 - tip.offsetWidth : left + 14}px`;
  tip.style.top = `${Math.max(0, Math.min(top + 10, height - tip.offsetHeight))}px`;
}
