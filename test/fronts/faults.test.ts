/** Tests how the real `vllm-rs` reacts to each fault of its engine. `reactions.json` has the reactions, also for the docs. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { FRONT_FAULT_NAMES } from "../../src/servers/vllm-engine/faults/front-faults.ts";
import { sized } from "../size.ts";
import reactions from "./reactions.json";
import { FrontWithEngine, isHere } from "./vllm-rs.ts";

setDefaultTimeout(60_000);

const SAMPLE = ["engine-dead", "output-lost", "message-wrong"] as const;
const names = sized("fronts", { sample: SAMPLE, whole: FRONT_FAULT_NAMES });
/** Longer than any answer that comes takes. */
const HANGS_MS = 2000;
const BODY = { model: "golden", prompt: "hello", seed: 7, max_tokens: 8, ignore_eos: true };

const within = <T>(answer: Promise<T>): Promise<T | "hangs"> =>
  Promise.race([answer, Bun.sleep(HANGS_MS).then(() => "hangs" as const)]);
const post = (url: string, path: string, body: object) =>
  fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

async function streamOf(url: string): Promise<string> {
  const text = await (await post(url, "/v1/completions", { ...BODY, stream: true })).text();
  if (text.includes('"error"')) return "error";
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!).choices[0].text).join("");
}

async function reactionTo(plan: string, clean: string) {
  const front = await FrontWithEngine.start("--timing=constant:ttft=5ms,itl=5ms", `--front-faults=${plan}`);
  const { url } = front;
  try {
    const text = await within(streamOf(url));
    const [later, call] = await Promise.all([
      within(post(url, "/v1/completions", BODY).then(({ status }) => status)),
      within(post(url, "/reset_prefix_cache", {}).then(({ status }) => status)),
    ]);
    const health = await within(fetch(`${url}/health`).then(({ status }) => status));
    const page = await (await fetch(`${url}/metrics`)).text();
    const running = Number(/^vllm:num_requests_running\{.*\} (\S+)$/m.exec(page)![1]);
    const stream = text === clean ? "whole" : ["error", "hangs"].includes(text) ? text : "other text";
    return { stream, later, call, health, running };
  } finally {
    await front.stop();
  }
}

test("reactions to all faults are known", () => {
  expect(Object.keys(reactions)).toEqual([...FRONT_FAULT_NAMES]);
});

describe.skipIf(!isHere())("vllm-rs", () => {
  test.each([...names])("reacts to %s as the docs say", async (name) => {
    const clean = " Paris finds two block els pa short.";
    const { order, "vllm-rs": known } = reactions[name];
    expect(await reactionTo(name + order, clean)).toEqual(known as Awaited<ReturnType<typeof reactionTo>>);
  });
});
