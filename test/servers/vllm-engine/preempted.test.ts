/** Tests that an engine tells its front end of preemptions, with their times. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { hosted } from "../../hosted.ts";
import { SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

test("a preempted request reports when it was preempted and when it was scheduled again", async () => {
  const front = new SmallFront();
  const server = await hosted([
    ...["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--max-model-len=128", "--seed=1"],
    ...["--num-gpu-blocks-override=12", "--timing=constant:ttft=2ms,itl=1ms"],
  ]);
  await front.until(() => front.statuses.includes("READY"));
  const ids = ["a", "b"];
  for (const [at, id] of ids.entries())
    front.add(
      id,
      { max_tokens: 90 },
      Array.from({ length: 20 }, (_, token) => 100 * at + token),
    );
  await front.until(() => ids.every((id) => front.outputsOf(id).some(({ finish_reason }) => finish_reason !== null)));
  const events = ids.flatMap((id) =>
    front
      .outputsOf(id)
      .flatMap(({ events: some }) => (some ?? []) as readonly { readonly type: number; readonly timestamp: number }[]),
  );
  const preempted = events.filter(({ type }) => type === 3);
  expect(preempted.length).toBeGreaterThan(0);
  for (const { timestamp } of preempted)
    expect(events.some(({ type, timestamp: resumed }) => type === 2 && resumed > timestamp)).toBe(true);
  expect(ids.map((id) => front.outputsOf(id).flatMap(({ new_token_ids }) => new_token_ids as number[]).length)).toEqual(
    [90, 90],
  );
  await front.close();
  await server.stop(0);
});
