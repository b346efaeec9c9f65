/** Makes an incomplete kernel for tests of routes that need only some of its members. */

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

export function fakeKernel(given: FakeKernel): OpenAiKernel {
  const { config, text, metrics } = given;
  return {
    log: () => {},
    ...given,
    live: new LiveSettings(config as StartConfig),
    engines: { alive: { get: () => true }, ...given.engines },
    time: { epochSeconds: () => 1, ...given.time },
    chance: { nextSeed: () => 7, ...given.chance },
    text: { canned: {}, naturalLength: () => 1000, ...text },
    truth: { ...given.truth },
    metrics: { httpAccounts: NO_HTTP, ...metrics },
    pressure: { ...given.pressure },
    lifecycle: { ...given.lifecycle },
  } as unknown as OpenAiKernel;
}
