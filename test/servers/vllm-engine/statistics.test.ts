/** Tests that a front end learns of steps without outputs: of prompts in parts, and of aborts. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../../hosted.ts";
import { SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

let front: SmallFront;
let server: HostedServer;
beforeAll(async () => {
  front = new SmallFront();
  const flags = ["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--seed=1", "--max-model-len=2000"];
  const parts = ["--max-num-batched-tokens=256", "--timing=constant:ttft=20ms,itl=5ms"];
  server = await hosted([...flags, ...parts]);
  await front.until(() => front.statuses.includes("READY"));
});
afterAll(async () => {
  await front.close();
  await server.stop(0);
});

const runningIn = (messages: SmallFront["messages"]) =>
  messages.flatMap(({ scheduler_stats: stats }) =>
    stats ? [(stats as { readonly num_running_reqs: number }).num_running_reqs] : [],
  );

test("a request that runs without outputs is in the statistics, and one that was aborted leaves them", async () => {
  front.add(
    "parts",
    { max_tokens: 1900, min_tokens: 1900 },
    Array.from({ length: 1000 }, (_, at) => at + 500),
  );
  await front.until(() => front.outputsOf("parts").length > 2);
  const first = front.messages.findIndex(({ outputs }) => outputs.length > 0);
  expect(runningIn(front.messages.slice(0, first))).toEqual([1]);
  front.abort("parts");
  await front.until(() => runningIn(front.messages).at(-1) === 0);
  const count = front.messages.length;
  await Bun.sleep(50);
  expect(front.messages).toHaveLength(count);
});
