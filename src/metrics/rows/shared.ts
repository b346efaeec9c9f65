/**
 * Combines the numbers of several worker processes. Each process writes its own page (`shared-page.ts`): its snapshot
 * copies, added to the numbers that earlier processes in its place left. A process that answers a scrape adds up all
 * pages without asking the others. If a process dies, its counters stay in the page and its gauges become 0; its
 * successor continues from there.
 */
import type { Snapshot } from "../../engine/interface/types.ts";
import { Layout, type Shape } from "./flat.ts";
import { kindsOf, NumberKind, restartsOf } from "./kinds.ts";
import { SharedPage } from "./shared-page.ts";
import type { Refresh } from "./table.ts";

/** Files of the pages and their contents. Plain data. */
export interface Pages {
  /** One file per worker. */
  readonly files: readonly string[];
  /** Shape of one process's numbers. */
  readonly shape: Shape;
  readonly refreshes: readonly Refresh[];
}

/** Returns the doubles in a page. */
export const pageLength = ({ shape, refreshes }: Pages) => new Layout(shape).length * refreshes.length;

export function openPage(pages: Pages, place: number): SharedPage {
  return new SharedPage(Bun.mmap(pages.files[place]!, { shared: true }), pageLength(pages));
}

/** The page that this process writes. */
export class OwnPage {
  readonly #page: SharedPage;
  /** Numbers that earlier processes left, with gauges at 0. */
  readonly #base: Float64Array;
  readonly #kinds: Uint8Array;
  #numbers: Float64Array = new Float64Array();

  constructor(page: SharedPage, pages: Pages) {
    this.#page = page;
    this.#kinds = everyCopy(kindsOf(pages.shape), pages);
    this.#base = new Float64Array(page.length);
    page.read(this.#base);
  }

  /** Publishes the snapshot copies of this process. Allocates nothing. */
  write(numbers: Float64Array): void {
    this.#numbers = numbers;
    this.#page.write(this.#fill);
  }

  readonly #fill = (into: Float64Array): void => {
    const base = this.#base;
    const kinds = this.#kinds;
    const numbers = this.#numbers;
    for (let i = 0; i < base.length; i++) into[i] = together(kinds[i]!, base[i]!, numbers[i]!);
  };
}

/** Retires the numbers of a dead process: sets gauges to 0 and counts a restart. */
export function retire(page: SharedPage, pages: Pages): void {
  const kinds = everyCopy(kindsOf(pages.shape), pages);
  const restarts = everyCopy(restartsOf(pages.shape), pages);
  const left = new Float64Array(page.length);
  page.read(left);
  page.write((into) => {
    for (let i = 0; i < into.length; i++) into[i] = kinds[i] === NumberKind.Gauge ? 0 : left[i]! + restarts[i]!;
  });
}

/** Returns the copy of class `now` in a page, or the first copy if there is none. */
export function shownBy(page: SharedPage, { shape, refreshes }: Pages): Snapshot {
  const layout = new Layout(shape);
  const numbers = new Float64Array(page.length);
  page.read(numbers);
  return layout.read(numbers, Math.max(0, refreshes.indexOf("now")) * layout.length);
}

/** Adds up all pages. Only for the metrics thread, because it may sleep while a page is written. */
export class AllPages {
  readonly #open: readonly SharedPage[];
  readonly #copies: number;
  readonly #numbers: Float64Array;
  /** Numbers in a copy of one process, and how many of them belong to its engines. */
  readonly #length: number;
  readonly #engines: number;
  readonly #kinds: Uint8Array;

  constructor(pages: Pages, open = pages.files.map((_, place) => openPage(pages, place))) {
    const { shape, refreshes } = pages;
    this.#open = open;
    this.#copies = refreshes.length;
    this.#length = new Layout(shape).length;
    this.#kinds = kindsOf(shape);
    this.#engines = (new Layout({ ...shape, engines: shape.engines + 1 }).length - this.#length) * shape.engines;
    this.#numbers = new Float64Array(this.#length * this.#copies);
  }

  /** Returns snapshot copies as if of one process with all engines: engines are concatenated, other numbers are combined. */
  read(): Float64Array {
    const [length, engines] = [this.#length, this.#engines];
    const rest = length - engines;
    const lengthOfAll = this.#open.length * engines + rest;
    const all = new Float64Array(lengthOfAll * this.#copies);
    this.#open.forEach((page, place) => {
      page.read(this.#numbers);
      for (let copy = 0; copy < this.#copies; copy++) {
        const from = copy * length;
        const to = copy * lengthOfAll;
        all.set(this.#numbers.subarray(from, from + engines), to + place * engines);
        const restAt = to + this.#open.length * engines;
        for (let i = 0; i < rest; i++) {
          const kind = this.#kinds[engines + i]!;
          all[restAt + i] = together(kind, all[restAt + i]!, this.#numbers[from + engines + i]!);
        }
      }
    });
    return all;
  }
}

function together(kind: NumberKind, a: number, b: number): number {
  if (kind !== NumberKind.First) return a + b;
  return a === 0 ? b : b === 0 ? a : Math.min(a, b);
}

function everyCopy(mask: Uint8Array, { refreshes }: Pages): Uint8Array {
  const all = new Uint8Array(mask.length * refreshes.length);
  for (let copy = 0; copy < refreshes.length; copy++) all.set(mask, copy * mask.length);
  return all;
}
