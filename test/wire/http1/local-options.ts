/** Options of an HTTP server for tests: a free port of this machine, and a clock that stands still. */
import { FRONT_LIMITS } from "../../../src/wire/http/front-limits.ts";

export const LOCAL = {
  hostname: "127.0.0.1",
  port: 0,
  tls: undefined,
  reusePort: false,
  frontLimits: FRONT_LIMITS,
  clock: { now: () => 0, at: () => () => {}, turn: setImmediate },
  warn() {},
  epochSeconds: () => 0,
} as const;
