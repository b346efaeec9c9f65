/** Gives each canvas a bitmap with as many pixels as the screen uses for it, so that the picture is sharp. */

export interface Surface {
  readonly context: CanvasRenderingContext2D;
  /** Size in pixels of the page. The context is scaled so that a unit is such a pixel. */
  width: number;
  height: number;
  /** Pixels of the screen per pixel of the page. */
  ratio: number;
}

/** Makes the surface of a canvas. Its size follows that of the element. */
export function surfaceOf(canvas: HTMLCanvasElement, sizes: ResizeObserver): Surface {
  const surface = { context: canvas.getContext("2d")!, width: 0, height: 0, ratio: 1 };
  surfaces.set(canvas, surface);
  fit(canvas);
  sizes.observe(canvas);
  return surface;
}

const surfaces = new WeakMap<Element, Surface>();

/** Brings the surface of a canvas up to the size of the element. */
export function fit(canvas: Element): void {
  const surface = surfaces.get(canvas);
  if (surface === undefined) return;
  const ratio = Math.min(3, devicePixelRatio);
  const { canvas: bitmap } = surface.context;
  Object.assign(surface, { width: canvas.clientWidth, height: canvas.clientHeight, ratio });
  bitmap.width = Math.round(surface.width * ratio);
  bitmap.height = Math.round(surface.height * ratio);
  surface.context.setTransform(ratio, 0, 0, ratio, 0, 0);
}
