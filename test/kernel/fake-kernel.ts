/** Makes an incomplete kernel for tests of routes that need only some of its members. */

import type { Outcome } from "../../src/engine/interface/types.ts";
import type { StartConfig } from "../../src/kernel/kernel-config.ts";
import { LiveSettings } from "../../src/kernel/live-settings.ts";
import type { OpenAiKernel } from "../../src/servers/openai/request/openai-config.ts";

type Groups = "engines" | "time" | "chance" | "text" | "truth" | "metrics" | "pressure" | "lifecycle";
type FakeText = Partial<Omit<OpenAiKernel["text"], "model">> & {
  readonly model: Partial<OpenAiKernel["text"]["model"]>;
};

/** The members that a test sets. Each group may lack members that the test does not use. */
export type FakeKernel = Partial<Pick<OpenAiKernel, "log" | "backend">> & {
  readonly config: object;
  readonly text?: FakeText;
} & { readonly [Group in Exclude<Groups, "text">]?: Partial<OpenAiKernel[Group]> };

/** Accounting that counts nothing. */
const NO_HTTP = { came() {}, take: () => undefined };

export function fakeKernel(fake: FakeKernel): OpenAiKernel {
  const { config, text, metrics } = fake;
  return {
    log: () => {},
    ...fake,
    live: new LiveSettings(config as StartConfig),
    engines: { alive: { get: () => true }, adapters: { byNumber: () => null }, ...fake.engines },
    time: { epochSeconds: () => 1, ...fake.time },
    chance: { nextSeed: () => 7, ...fake.chance },
    text: { canned: {}, naturalLength: () => 1000, ...text },
    truth: { ...fake.truth },
    metrics: { httpAccounts: NO_HTTP, ...metrics },
    pressure: { ...fake.pressure },
    lifecycle: { ...fake.lifecycle },
  } as unknown as OpenAiKernel;
}

/** Accounting that only adds to these counts: requests that were opened, and the outcomes of requests. */
export function fakeAccounting(counts: {
  opened: number;
  readonly outcomes: Outcome[];
}): OpenAiKernel["metrics"]["accounting"] {
  const accounting: Pick<OpenAiKernel["metrics"]["accounting"], "stream" | "held" | "opened" | "settled"> = {
    stream() {},
    held() {},
    opened: () => {
      counts.opened++;
    },
    settled: (outcome) => void counts.outcomes.push(outcome),
  };
  return accounting as OpenAiKernel["metrics"]["accounting"];
}
