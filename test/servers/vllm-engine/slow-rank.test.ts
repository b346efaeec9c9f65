/** Tests that a slow rank stays slow when the pace of the engines changes. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { hosted } from "../../hosted.ts";
import { SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

test("a slow rank is as much slower after a change of the speed", async () => {
  const front = new SmallFront();
  const flags = ["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--front-faults=rank-slow=4"];
  const server = await hosted([...flags, "--admin-key=k", "--timing=constant:ttft=5ms,itl=5ms"]);
  await front.until(() => front.statuses.includes("READY"));
  /** Returns the engine's time between two tokens, in milliseconds. */
  const itlMs = async (id: string) => {
    front.add(id, { max_tokens: 11 });
    await front.until(() => front.ended.has(id));
    const times = front.messages.filter(({ outputs }) => outputs.some(({ request_id }) => request_id === id));
    const [first, last] = [times[0]!, times.at(-1)!].map(({ timestamp }) => timestamp as number);
    return Math.round(((last! - first!) / 10) * 1000);
  };
  expect(await itlMs("before")).toBe(20);
  const changed = await fetch(`${server.url}/admin/config`, {
    method: "POST",
    headers: { authorization: "Bearer k", "content-type": "application/json" },
    body: JSON.stringify({ speed: 2 }),
  });
  expect(changed.status).toBe(200);
  expect(await itlMs("after")).toBe(10);
  await front.close();
  await server.stop(0);
});
