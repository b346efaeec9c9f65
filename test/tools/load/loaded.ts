/** Runs a whole load on a small server, for tests of requests, measurements and messages. */
import { WallClock } from "../../../src/base/clock.ts";
import { Load, type LoadOutcome } from "../../../src/tools/load/load.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { workedExample } from "./played.ts";
import type { RawServer } from "./raw-server.ts";

export const SETTINGS: Omit<Settings, "url"> & { readonly model: string } = {
  endpoint: null,
  dialect: "openai-chat",
  model: "m",
  headers: {},
  insecure: false,
  ca: null,
  loop: { kind: "closed" },
  concurrency: 1,
  count: 1,
  durationS: null,
  graceS: 0,
  warmUpCount: 0,
  warmUpS: 0,
  dataset: { name: "random", inputLen: 4, outputLen: 5 },
  skipBad: false,
  stream: true,
  legacyMaxTokens: false,
  ignoreEos: false,
  minTokens: null,
  temperature: null,
  extraBody: {},
  slo: null,
  metrics: ["ttft", "tpot", "itl", "e2el"],
  percentiles: [50, 99],
  cancelShare: 0,
  cancelAfterS: 0,
  slowShare: 0,
  seed: 0,
  pooled: true,
  timeoutS: 10,
  retries: 0,
  metricsUrl: null,
  metricsIntervalS: 1,
  truth: null,
  label: null,
  metadata: {},
  detailed: false,
  command: "test",
  version: "0",
};

/** The answer of the worked example as one body. */
export const WHOLE = workedExample(true)
  .map(([, text]) => text)
  .join("");

export const kinds = ({ result }: LoadOutcome) => result.understudy.errors;

export async function loadOn(server: RawServer, more: Partial<Settings> = {}): Promise<LoadOutcome> {
  const clock = new WallClock();
  try {
    const url = new URL(server.url);
    return await new Load({ ...SETTINGS, url, ...more, model: "m" }, { clock, live: null }).run();
  } finally {
    clock.close();
  }
}
