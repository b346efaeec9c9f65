/**
 * Checks that recorded decisions stay the same if each request takes the way of a front end's message: encoded, decoded, and
 * prepared. The sampled tokens, and when a grammar is ready, come from the recordings.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { SUBMIT_BLOCKED, SUBMIT_IGNORE_EOS, SUBMIT_SKIP_READING } from "../../../assembly/layout.ts";
import { coreRequest } from "../../../src/engine/core-request.ts";
import { EngineAdapters } from "../../../src/servers/vllm-engine/adapters.ts";
import type { EngineKernel } from "../../../src/servers/vllm-engine/engine-kernel.ts";
import { frontMessage } from "../../../src/servers/vllm-engine/messages/incoming.ts";
import { LAYOUTS } from "../../../src/servers/vllm-engine/messages/layouts.ts";
import { Preparer } from "../../../src/servers/vllm-engine/prepare.ts";
import type { MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { firstDifference, sideBySide } from "../../golden/compare.ts";
import { recordingsAt } from "../../golden/places.ts";
import type { RequestPath } from "../../golden/request-path.ts";
import { drawn, seed, sized } from "../../size.ts";
import { encoded, mapOf } from "./small-front.ts";

// Some recordings have a thousand requests.
setDefaultTimeout(60_000);

const layout = LAYOUTS["0.33"];
const root = new URL("../../", import.meta.url).pathname;
const module = new WebAssembly.Module(readFileSync(`${root}../build/core.wasm`));
const EOS = 1;
const CONFIG = {
  engine: { maxModelLen: 2 ** 20, maxLoras: 4, enablePrefixCaching: true, blockSize: 16, seed: 1 },
  openai: { requests: { maxLogprobs: 20 }, answers: {} },
  text: {},
  faults: {},
};

/** Returns the way of requests through an engine behind a front end. */
function throughMessages(): RequestPath {
  // The members that preparing a request reads.
  const kernel = {
    config: CONFIG,
    backend: { nowUs: () => 0 },
    live: { values: { kvTransferTime: { get: () => undefined } } },
    chance: { nextSeed: () => 7 },
    text: { canned: {}, naturalLength: () => 1000, model: { vocabulary: { size: 2 ** 24, eosId: EOS }, endIds: [] } },
  };
  const preparer = new Preparer(kernel as unknown as EngineKernel, new EngineAdapters([], () => {}), 0);
  return (request, salt) => {
    const { adapter, flags, order } = request;
    const params = mapOf({
      max_tokens: request.maxTokens,
      stop_token_ids: request.stopTokenIds,
      skip_reading_prefix_cache: (flags & SUBMIT_SKIP_READING) !== 0,
      ...((flags & SUBMIT_IGNORE_EOS) === 0 ? { _eos_token_id: EOS } : {}),
    });
    const fields: Readonly<Record<string, MsgpackValue>> = {
      ...{
        request_id: `cmpl-${order}-01234567`,
        prompt_token_ids: Array.from(request.prompt),
        sampling_params: params,
      },
      ...{ lora_request: adapter === 0 ? null : [`lora-${adapter}`, adapter, "/a"], cache_salt: salt ?? null },
      ...{ arrival_time: 0, client_index: 0, current_wave: 0, resumable: false, abort_immediately: false },
      priority: request.priority,
    };
    const frames = [Buffer.from([0]), encoded(layout.request.map((name) => fields[name] ?? null))];
    const message = frontMessage(frames, layout);
    const prepared = message.type === "add" ? preparer.prepare(message.request) : null;
    if (prepared === null || prepared instanceof Promise || "refused" in prepared)
      throw new Error(`not prepared: ${JSON.stringify(prepared)}`);
    const arrived = coreRequest(prepared.generation, false, order);
    return {
      ...arrived,
      ...{ eosAt: request.eosAt, fed: request.fed!, flags: arrived.flags | (flags & SUBMIT_BLOCKED) },
      ...{ arrivalUs: request.arrivalUs, queuedUs: request.queuedUs },
    };
  };
}

const all = [...recordingsAt(["vllm-0.33", "random", "recorded"].map((folder) => `${root}golden/${folder}`))];
const played = sized("fronts", { sample: drawn(all, 40, seed), whole: all });

test("all recordings exist", () => {
  expect(all.length).toBe(226);
});

test.each(played.map((file) => [file.name.slice(root.length), file] as const))(
  "%s is decided as recorded, with requests as messages",
  (_, file) => {
    const difference = firstDifference(file.load(), module, throughMessages());
    expect(difference ? sideBySide(difference) : "").toBe("");
  },
);
