/** Draws the state of the moment: the queue, the running requests, and the KV blocks. */
import { FREE } from "../demo/block-map.ts";
import { BLOCK_TOKENS, type Simulation } from "../demo/simulation.ts";
import { colorOf, FADES, type Palette } from "./palette.ts";
import type { Surface } from "./surface.ts";

/** Sizes of a waiting request, with its gap. The first with which all fit is used. */
const DOTS = [15, 12, 9, 7, 5, 4];

/** Draws a dot for each waiting request, the next one to be admitted first. Preempted ones have another colour. */
export function drawQueue({ context, width, height }: Surface, { open }: Simulation, palette: Palette): void {
  context.clearRect(0, 0, width, height);
  const running = open.findLastIndex(({ isRunning }) => isRunning) + 1;
  const count = open.length - running;
  const size = DOTS.find((dot) => Math.floor(width / dot) * Math.floor(height / dot) >= count) ?? DOTS.at(-1)!;
  const columns = Math.floor(width / size);
  const draw = (isPreempted: boolean, color: string) => {
    context.beginPath();
    for (let at = 0; at < count; at++) {
      if (open[running + at]!.preemptions > 0 !== isPreempted) continue;
      context.rect((at % columns) * size, Math.floor(at / columns) * size, size - 2, size - 2);
    }
    context.fillStyle = color;
    context.fill();
  };
  draw(false, palette.waiting);
  draw(true, palette.preempted);
}

/** Fewest places of running requests for which there is room, so that few requests do not become wide bars. */
const PLACES_LEAST = 48;
/** Tokens of a request whose bar has the full height. */
const TOKENS_MOST = 2000;

/**
 * Draws a bar for each running request. From its lower end: the prompt, of which the computed part is pale, and the answer so
 * far. Heights have a square-root scale.
 */
export function drawRunning({ context, width, height }: Surface, { places }: Simulation, palette: Palette): void {
  context.clearRect(0, 0, width, height);
  const step = width / Math.max(PLACES_LEAST, Math.ceil(places.length / 16) * 16);
  const bar = Math.max(1, step - (step > 4 ? 2 : 1));
  const heightOf = (tokens: number) => height * Math.min(1, Math.sqrt(tokens / TOKENS_MOST));
  const tracks = new Path2D();
  const prompts = palette.requests.map(() => new Path2D());
  const answers = palette.requests.map(() => new Path2D());
  for (const [at, request] of places.entries()) {
    if (request === undefined) continue;
    const { run, blocks, order, computesPrompt } = request;
    const color = colorOf(order);
    const computed = computesPrompt ? Math.min(run.promptTokens, blocks.length * BLOCK_TOKENS) : run.promptTokens;
    const [whole, prompt, now] = [
      heightOf(run.promptTokens + run.maxTokens),
      heightOf(computed),
      heightOf(computed + (computesPrompt ? 0 : run.tokens.length)),
    ];
    tracks.rect(at * step, height - whole, bar, whole);
    prompts[color]!.rect(at * step, height - prompt, bar, prompt);
    answers[color]!.rect(at * step, height - now, bar, now - prompt);
  }
  context.fillStyle = palette.track;
  context.fill(tracks);
  for (const [at, color] of palette.requests.entries()) {
    context.fillStyle = color;
    context.fill(answers[at]!);
    context.globalAlpha = 0.55;
    context.fill(prompts[at]!);
    context.globalAlpha = 1;
  }
}

/** Draws the KV blocks as squares with the colours of their requests. The colour of a returned block fades. */
export class BlocksPanel {
  #image = new ImageData(1, 1);
  #words = new Uint32Array(1);
  readonly #bitmap = document.createElement("canvas");
  #lastColors = new Uint8Array(0);
  #fades = new Uint8Array(0);

  draw({ context, width, height, ratio }: Surface, { blocks }: Simulation, palette: Palette): void {
    const { owners } = blocks;
    const [wide, high] = [Math.floor(width * ratio), Math.floor(height * ratio)];
    let cell = Math.max(1, Math.floor(Math.sqrt((wide * high) / owners.length)));
    while (cell > 1 && Math.floor(wide / cell) * Math.floor(high / cell) < owners.length) cell--;
    const columns = Math.floor(wide / cell);
    const rows = Math.ceil(owners.length / columns);
    if (columns < 1 || rows < 1) return;
    this.#resize(columns, rows, owners.length);
    const [words, colors, fades] = [this.#words, this.#lastColors, this.#fades];
    for (let block = 0; block < owners.length; block++) {
      const owner = owners[block]!;
      if (owner !== FREE) {
        colors[block] = colorOf(owner);
        fades[block] = FADES;
      } else if (fades[block]! > 0) fades[block]!--;
      words[block] = palette.words[fades[block]!]![colors[block]!]!;
    }
    this.#bitmap.getContext("2d")!.putImageData(this.#image, 0, 0);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide + 1, high + 1);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#bitmap, 0, 0, wide, high);
    if (cell > 3) drawGaps(context, columns, rows, wide, high, palette.gap);
    context.restore();
  }

  #resize(columns: number, rows: number, count: number): void {
    if (this.#fades.length !== count) {
      this.#fades = new Uint8Array(count);
      this.#lastColors = new Uint8Array(count);
    }
    if (this.#image.width === columns && this.#image.height === rows) return;
    this.#image = new ImageData(columns, rows);
    this.#words = new Uint32Array(this.#image.data.buffer);
    Object.assign(this.#bitmap, { width: columns, height: rows });
  }
}

/** Draws lines between the cells of a grid that fills a picture of `wide` × `high` pixels of the screen. */
function drawGaps(
  context: CanvasRenderingContext2D,
  columns: number,
  rows: number,
  wide: number,
  high: number,
  color: string,
): void {
  const gap = wide / columns > 9 ? 2 : 1;
  context.beginPath();
  for (let column = 1; column <= columns; column++)
    context.rect(Math.round((column * wide) / columns) - gap, 0, gap, high);
  for (let row = 1; row <= rows; row++) context.rect(0, Math.round((row * high) / rows) - gap, wide, gap);
  context.fillStyle = color;
  context.fill();
}
