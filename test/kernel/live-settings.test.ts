/** Tests that `/admin/config` changes the live values, but not the configuration of the start. */
import { expect, test } from "bun:test";
import type { RunningConfig } from "../../src/app/config/serve-config.ts";
import { LiveOptions } from "../../src/cli/serve/live-options.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import type { StepPacing } from "../../src/engine/config/engine-config.ts";
import { type LiveConfig, LiveSettings } from "../../src/kernel/live-settings.ts";

const FLAGS = "--timing constant:ttft=1ms,itl=1ms".split(" ");
const UNOPENED = async () => {
  throw new Error("no fixtures are named");
};

function setUp() {
  const resolved = resolveServeConfig(FLAGS, {}, () => "");
  if (!("config" in resolved)) throw new Error("the flags are wrong");
  const { config, values } = resolved;
  const live = new LiveSettings(config);
  const paces: StepPacing[] = [];
  const options = new LiveOptions(values);
  const admin = live.changing({ key: "k", options }, (pace) => paces.push(pace), UNOPENED);
  return { config, live: live.values, admin, paces };
}

/** For each live value a change of options, and the expected value. */
const CHANGES: {
  readonly [Name in keyof Omit<LiveConfig, "kvTransferTime">]: readonly [changes: object, value: unknown];
} = {
  pace: [
    { speed: 2, jitter: 0.1 },
    { timing: { kind: "constant", ttftUs: 1000, itlUs: 1000 }, speed: 2, noise: { jitterSigma: 0.1 } },
  ],
  overload: [
    {
      ...{ "limit-concurrency": 3, "max-streams": 2, "overload-status": 429 },
      ...{ "retry-after": 4, "retry-after-form": ["ms"] },
    },
    { requests: 3, streams: 2, overloadStatus: 429, retryAfter: { seconds: 4, forms: ["ms"] } },
  ],
  queueLimits: [
    { "max-num-queued-reqs": 5, "max-num-queued-tokens": 6 },
    { maxNumQueuedReqs: 5, maxNumQueuedTokens: 6 },
  ],
  failures: [
    { "failure-injection-rate": 8, "failure-types": ["rate_limit"] },
    { failureRate: 8, failureTypes: ["rate_limit"] },
  ],
  faults: [
    { "fault-rate": 11, "fault-types": ["S3"] },
    { faultRate: 11, faultTypes: ["S3"] },
  ],
  logsAccess: [{ "disable-uvicorn-access-log": true }, false],
  logsRequests: [{ "enable-log-requests": true }, true],
  logsWarnings: [{ "uvicorn-log-level": "error" }, false],
};

test.each(Object.entries(CHANGES))("%s: changes, and null restores its default", async (name, [changes, value]) => {
  const { config, live, admin } = setUp();
  const before = structuredClone(config);
  // Readers keep the object, so a change must not replace it.
  const cell = live[name as keyof LiveConfig];
  const first = cell.get();
  expect(first).not.toEqual(value as never);
  expect(await admin.change(changes as Record<string, unknown>)).toBeNull();
  expect(cell.get()).toEqual(value as never);
  expect(config).toEqual(before);
  await admin.change(Object.fromEntries(Object.keys(changes).map((key) => [key, null])));
  expect(cell.get()).toEqual(first as never);
});

test("kvTransferTime: changes by the latencies of another stand-in", async () => {
  const flags = "--compat llm-d-inference-sim --model m --inter-token-latency 1ms".split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error("the flags are wrong");
  const live = new LiveSettings(resolved.config);
  const options = new LiveOptions(resolved.values, resolved.latencies);
  const admin = live.changing({ key: "k", options }, () => {}, UNOPENED);
  expect(live.values.kvTransferTime.get()?.baseUs).not.toBe(50_000);
  expect(await admin.change({ "kv-cache-transfer-latency": "50ms" })).toBeNull();
  expect(live.values.kvTransferTime.get()?.baseUs).toBe(50_000);
});

test("a change that is refused changes no value, and a new pace reaches the engines", async () => {
  const { live, admin, paces } = setUp();
  expect(await admin.change({ "max-streams": 2, "overload-status": 200 })).toMatchObject({ key: "overload-status" });
  expect(live.overload.get().streams).toBe(0);
  expect(paces).toEqual([]);
  await admin.change({ speed: 2, "max-streams": 2 });
  expect(live.overload.get().streams).toBe(2);
  expect(paces).toMatchObject([{ speed: 2 }]);
});

// `npx bun run types` checks these: a running server cannot read the value of the start in place of the live one.
export const staleReads = (config: RunningConfig): unknown[] => [
  // @ts-expect-error: live.values.pace
  config.engine.timing,
  // @ts-expect-error: live.values.pace
  config.engine.noise,
  // @ts-expect-error: live.values.pace
  config.engine.speed,
  // @ts-expect-error: live.values.overload
  config.listen.frontLimits?.requests,
  // @ts-expect-error: live.values.queueLimits
  config.queue.maxNumQueuedReqs,
  // @ts-expect-error: live.values.kvTransferTime
  config.queue.kvTransferTime,
  // @ts-expect-error: live.values.failures
  config.faults.failureRate,
  // @ts-expect-error: live.values.faults
  config.faults.faultRate,
  // @ts-expect-error: live.values.logsAccess
  config.logs.disableAccessLog,
  // @ts-expect-error: live.values.logsWarnings
  config.logs.disableWarnings,
  // @ts-expect-error: live.values.logsRequests
  config.logs.enableLogRequests,
  // @ts-expect-error: kernel.text.canned has the fixtures in force
  config.text.fixtures,
];
