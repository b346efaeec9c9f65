/** The place of a process among several that serve on the same port (`--workers`). Types only. */

import type { Fleet } from "../engine/fleet.ts";
import type { Pages } from "../metrics/rows/shared.ts";
import type { EngineControl } from "./engine-control.ts";

export interface Place {
  /** Number of this process, from 0. */
  readonly index: number;
  /** Number of processes. */
  readonly workers: number;
  /** Duration of the start of the server, seconds. */
  readonly loadS: number;
  /** Memory with the numbers of all processes, which every process maps. */
  readonly pages: Pages;
  /** Returns a control of the engines of all processes. `own`: the engines of this one. */
  readonly control: (own: Fleet) => EngineControl;
}
