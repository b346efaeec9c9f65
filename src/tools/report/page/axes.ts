/** Common parts of all plots: axes, scales, reference lines, and the width. */
import type uPlot from "uplot";
import type { Axis, Mark } from "../plot.ts";
import { DIGIT_PX, plotNumber } from "./format.ts";
import { color, faded } from "./theme.ts";

const FONT = '12px system-ui, -apple-system, "Segoe UI", sans-serif';

/** Allowed distances between ticks of counts. */
const WHOLE = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((lead) => lead * 10 ** power)).flat();

export function axisOf(axis: Axis, side: 2 | 3): uPlot.Axis {
  return {
    side: side as uPlot.Axis.Side,
    scale: side === 2 ? "x" : "y",
    ...(axis.label === "" ? {} : { label: axis.label, labelFont: FONT, labelSize: 18, labelGap: 0 }),
    font: FONT,
    stroke: color("muted"),
    grid: { stroke: color("grid"), width: 1 },
    ticks: { stroke: color("grid"), width: 1, size: 5 },
    gap: 4,
    size:
      side === 2
        ? 26
        : (_, values) => 22 + DIGIT_PX * Math.max(2, ...(values ?? []).map((value) => value?.length ?? 0)),
    space: side === 2 ? 56 : 32,
    values: (_, splits) => splits.map((value) => (value === null ? "" : plotNumber(value, axis))),
    ...(axis.log ? { splits: logTicks, filter: (_, splits) => splits } : {}),
    ...(axis.whole ? { incrs: WHOLE } : {}),
  };
}

/** Returns ticks of a logarithmic axis: 1, 2 and 5 of each power of ten, more on a short axis, only the powers on a long one. */
function logTicks(_: uPlot, __: number, least: number, most: number): number[] {
  const decades = Math.log10(most / least);
  const leads =
    decades > 3.5
      ? [1]
      : decades > 1.1
        ? [1, 2, 5]
        : decades > 0.5
          ? [1, 1.5, 2, 3, 4, 6, 8]
          : [1, 1.2, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9];
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(least)); 10 ** power <= most; power++) {
    ticks.push(...leads.map((lead) => lead * 10 ** power).filter((tick) => tick >= least && tick <= most));
  }
  return ticks;
}

/** Returns the scale of an axis, with its fixed bounds if it has any. A range that the reader zoomed into is used as it is. */
export function scaleOf(axis: Axis): uPlot.Scale {
  const { from, to } = axis;
  const log = axis.log ? { distr: 3 as const } : {};
  return {
    time: false,
    ...log,
    range: (_, least, most) => {
      if (!Number.isFinite(least) || !Number.isFinite(most)) return axis.log ? [1, 10] : [0, 1];
      if (axis.log) return least < most ? [least * 0.95, most * 1.05] : [least / 2, most * 2];
      const [low, high] = [from ?? least, to ?? (from === undefined ? most : most + 0.06 * (most - from))];
      return low < high ? [low, high] : [low, low + 1];
    },
  };
}

/** Draws reference lines and bands behind the plot. */
export function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  for (const mark of marks) {
    const at = plot.valToPos(mark.at, mark.axis, true);
    const shade = color(mark.color);
    if (mark.to !== undefined) {
      ctx.fillStyle = faded(shade, 0.09);
      const to = plot.valToPos(mark.to, mark.axis, true);
      if (mark.axis === "x") ctx.fillRect(at, bbox.top, to - at, bbox.height);
      else ctx.fillRect(bbox.left, at, bbox.width, to - at);
    } else {
      ctx.strokeStyle = shade;
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      ctx.beginPath();
      if (mark.axis === "x") {
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bbox.top + bbox.height);
      } else {
        ctx.moveTo(bbox.left, at);
        ctx.lineTo(bbox.left + bbox.width, at);
      }
      ctx.stroke();
      ctx.setLineDash([]);
    }
    ctx.fillStyle = mark.to === undefined ? shade : color("muted");
    if (mark.axis === "x") {
      const wide = ctx.measureText(mark.label).width + 8 * ratio;
      const right = at + wide < bbox.left + bbox.width;
      ctx.textAlign = right ? "left" : "right";
      ctx.fillText(mark.label, at + (right ? 4 : -4) * ratio, bbox.top + (mark.to === undefined ? 26 : 13) * ratio);
    } else {
      ctx.textAlign = "right";
      ctx.fillText(mark.label, bbox.left + bbox.width - 4 * ratio, at - 4 * ratio);
    }
  }
  ctx.restore();
}

export const widthOf = (place: Element): number => Math.max(240, Math.floor(place.clientWidth));
