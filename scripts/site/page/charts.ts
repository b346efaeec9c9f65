/** Draws the latest seconds of the engine as charts: requests, tokens of each step, and KV blocks. */
import type { StepHistory } from "../demo/step-history.ts";
import type { Palette } from "./palette.ts";
import type { Surface } from "./surface.ts";

/** Simulated time that the charts show, in microseconds. */
export const WINDOW_US = 15e6;
const SIDE = 4;
const FONT = '11px system-ui, -apple-system, "Segoe UI", sans-serif';

/** Values of the charts. Each array has one value per column of pixels. */
interface Columns {
  readonly count: number;
  readonly running: Float32Array;
  /** Running and waiting requests together. */
  readonly requests: Float32Array;
  readonly answer: Float32Array;
  /** Tokens of answers and prompts together. */
  readonly tokens: Float32Array;
  readonly blocks: Float32Array;
  readonly preemptions: Float32Array;
}

const empty = (count: number): Columns => ({
  count,
  running: new Float32Array(count),
  requests: new Float32Array(count),
  answer: new Float32Array(count),
  tokens: new Float32Array(count),
  blocks: new Float32Array(count),
  preemptions: new Float32Array(count),
});

export class Charts {
  #columns = empty(0);

  /** Reads the history for charts of the given width in pixels. A column has the largest values of its steps. */
  read(history: StepHistory, nowUs: number, width: number): void {
    const count = Math.max(1, Math.floor(width));
    if (this.#columns.count !== count) this.#columns = empty(count);
    const columns = this.#columns;
    for (const values of Object.values(columns)) if (typeof values !== "number") values.fill(0);
    const { running, requests, answer, tokens, blocks, preemptions } = columns;
    const startUs = nowUs - WINDOW_US;
    const perUs = count / WINDOW_US;
    for (let step = history.count - 1; step >= history.first; step--) {
      const endUs = history.value("endUs", step);
      if (endUs < startUs) break;
      const from = Math.max(0, Math.floor((history.value("plannedUs", step) - startUs) * perUs));
      // The state after the last step holds until the present.
      const to = step === history.count - 1 ? count - 1 : Math.min(count - 1, Math.floor((endUs - startUs) * perUs));
      const now = history.value("running", step);
      const all = now + history.value("waiting", step);
      const made = history.value("decode", step);
      const sum = made + history.value("prefill", step);
      const held = history.value("blocksUsed", step);
      for (let at = from; at <= to; at++) {
        running[at] = Math.max(running[at]!, now);
        requests[at] = Math.max(requests[at]!, all);
        answer[at] = Math.max(answer[at]!, made);
        tokens[at] = Math.max(tokens[at]!, sum);
        blocks[at] = Math.max(blocks[at]!, held);
      }
      preemptions[to]! += history.value("preemptions", step);
    }
  }

  drawRequests(surface: Surface, palette: Palette): void {
    const { running, requests } = this.#columns;
    const most = niceAbove(Math.max(20, ...requests));
    begin(surface, palette, [0.5]);
    area(surface, requests, most, palette.waiting);
    area(surface, running, most, palette.running);
    labels(surface, palette, [
      [1, String(most)],
      [0.5, String(most / 2)],
    ]);
  }

  /**
   * Draws the tokens of each step with a square-root scale, because a step with a prompt has many times the tokens of others.
   */
  drawTokens(surface: Surface, palette: Palette, budget: number): void {
    const { answer, tokens, count } = this.#columns;
    const { context, width, height } = surface;
    begin(surface, palette, [0.5]);
    const pixel = width / count;
    const bars = (values: Float32Array, color: string) => {
      context.beginPath();
      for (let at = 0; at < count; at++) {
        const high = (height - SIDE) * Math.sqrt(Math.min(1, values[at]! / budget));
        if (high > 0) context.rect(at * pixel, height - high, pixel, high);
      }
      context.fillStyle = color;
      context.fill();
    };
    bars(tokens, palette.prompt);
    bars(answer, palette.answer);
    labels(surface, palette, [
      [1, `${budget} (budget)`],
      [0.5, String(budget / 4)],
    ]);
  }

  drawBlocks(surface: Surface, palette: Palette, total: number): void {
    const { blocks, preemptions, count } = this.#columns;
    const { context, width, height } = surface;
    begin(surface, palette, [0.5]);
    area(surface, blocks, total, palette.blocks);
    const pixel = width / count;
    context.beginPath();
    for (let at = 0; at < count; at++)
      if (preemptions[at]! > 0) context.rect(at * pixel, SIDE, Math.max(1.5, pixel), height - SIDE);
    context.fillStyle = palette.preempted;
    context.globalAlpha = 0.75;
    context.fill();
    context.globalAlpha = 1;
    labels(surface, palette, [[1, `${total} blocks`]]);
  }
}

/** Clears a chart and draws its grid. `lines`: heights from 0 to 1. The lower and the upper end always have a line. */
function begin({ context, width, height }: Surface, palette: Palette, lines: readonly number[]): void {
  context.clearRect(0, 0, width, height);
  context.fillStyle = palette.grid;
  for (const line of [0, ...lines, 1])
    context.fillRect(0, Math.round((height - SIDE) * (1 - line)) + SIDE - 1, width, 1);
}

function area({ context, width, height }: Surface, values: Float32Array, most: number, color: string): void {
  const pixel = width / values.length;
  context.beginPath();
  context.moveTo(0, height);
  for (let at = 0; at < values.length; at++)
    context.lineTo(at * pixel, height - (height - SIDE) * Math.min(1, values[at]! / most));
  context.lineTo(width, height - (height - SIDE) * Math.min(1, values.at(-1)! / most));
  context.lineTo(width, height);
  context.fillStyle = color;
  context.globalAlpha = 0.8;
  context.fill();
  context.globalAlpha = 1;
}

function labels(
  { context, height }: Surface,
  palette: Palette,
  texts: readonly (readonly [at: number, text: string])[],
): void {
  context.font = FONT;
  context.textBaseline = "top";
  context.lineWidth = 3;
  context.strokeStyle = palette.gap;
  context.fillStyle = palette.text;
  for (const [at, text] of texts) {
    const y = (height - SIDE) * (1 - at) + SIDE + 2;
    context.strokeText(text, 3, y);
    context.fillText(text, 3, y);
  }
}

/** Returns the smallest of 10, 20, 50, 100 … that is not below the value. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((lead) => lead * power).find((nice) => nice >= value)!;
}
