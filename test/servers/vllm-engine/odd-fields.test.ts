/** Tests that a request with a field that nobody expects is answered, and disturbs no other request of the front end. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { mapOf, SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

let front: SmallFront;
let server: HostedServer;
beforeAll(async () => {
  front = new SmallFront();
  const flags = ["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--seed=1", "--max-model-len=2000"];
  server = await hosted([...flags, "--timing=constant:ttft=5ms,itl=2ms"]);
  await front.until(() => front.statuses.includes("READY"));
});
afterAll(async () => {
  await front.close();
  await server.stop(0);
});

test.each<[what: string, params: Record<string, MsgpackValue>, more: Record<string, MsgpackValue>]>([
  ["a schema has an integer of 64 bits", schemaParams(2n ** 60n), {}],
  ["template variables are no map", {}, { reasoning_parser_kwargs: mapOf({ chat_template_kwargs: 5 }) }],
])("if %s, the request and others are answered", async (what, params, more) => {
  front.add(`${what} other`, { max_tokens: 300 });
  await front.until(() => front.outputsOf(`${what} other`).length > 0);
  front.add(what, { max_tokens: 5, ...params }, [1, 2, 3], more);
  await front.until(() => front.ended.has(what) && front.ended.has(`${what} other`));
  expect(front.outputsOf(what).at(-1)).toMatchObject({ error: null });
  expect(front.outputsOf(`${what} other`)).toHaveLength(300);
  expect(front.statuses).toEqual(["HELLO", "READY"]);
});

function schemaParams(maximum: bigint): Record<string, MsgpackValue> {
  return { structured_outputs: mapOf({ json: mapOf({ type: "integer", maximum }) }) };
}
