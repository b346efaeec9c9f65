/** Which of several processes that serve on the same port is this one? */
import type { Fleet } from "../engine/fleet.ts";
import type { Pages } from "../metrics/rows/shared.ts";
import type { EngineControl } from "./engine-control.ts";

export interface Place {
  /** From 0. */
  readonly index: number;
  readonly workers: number;
  /** How long the server took to start, seconds. */
  readonly loadS: number;
  readonly pages: Pages;
  /** What acts on the engines of all processes. */
  readonly control: (own: Fleet) => EngineControl;
}
