/** Lists the actions of clients of the vLLM and trtllm-serve roles in a soak run. */
import type { Action, WeightedAction } from "./actions.ts";
import type { SoakClient } from "./client.ts";
import { type Draw, prompt, text } from "./draw.ts";
import { MODEL } from "./servers.ts";

const CHATS = "/v1/chat/completions";
/** Faults whose answers end by themselves within seconds. */
const FAULTS = ["S2", "E6@e3", "E7@e5", "B8", "B1@e2", "T1@e3,200ms", "E1", "S1,split", "H8", "E4"];
const BAD_BODIES = ["{", "[]", '{"messages":1}', "null"];

const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const WEATHER = { type: "function", function: { name: "weather", parameters: CITY } };
const PERSON = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name"],
};
const SCHEMA = { type: "json_schema", json_schema: { name: "person", schema: PERSON } };

const userMessage = (content: string) => [{ role: "user", content }];

function chat(draw: Draw, more: object = {}): object {
  return { model: MODEL, messages: userMessage(prompt(draw)), max_tokens: 1 + draw.below(80), ...more };
}

/** Actions for both roles. */
export function openAiActions(client: SoakClient): WeightedAction[] {
  const posts =
    (path: string, body: (draw: Draw) => unknown, statuses?: readonly number[]): Action =>
    async (draw) =>
      void (await client.post(path, body(draw), statuses));
  const completion = (draw: Draw) => ({ model: MODEL, prompt: prompt(draw), max_tokens: 40, stream: draw.coin() });
  const response = (draw: Draw) => ({ model: MODEL, input: prompt(draw), max_output_tokens: 40, stream: draw.coin() });
  const long = (draw: Draw) => chat(draw, { stream: true, max_tokens: 400 });
  const disturbed = (draw: Draw) => chat(draw, { stream: true, understudy: { fault: draw.of(FAULTS) } });
  return [
    { weight: 30, name: "stream", run: posts(CHATS, (draw) => chat(draw, { stream: true })) },
    { weight: 15, name: "chat", run: posts(CHATS, (draw) => chat(draw, { n: 1 + draw.below(2) })) },
    { weight: 10, name: "completion", run: posts("/v1/completions", completion) },
    { weight: 8, name: "leave a stream", run: (draw) => client.leave(CHATS, long(draw), draw.below(500)) },
    { weight: 4, name: "leave early", run: (draw) => client.leave(CHATS, chat(draw), draw.below(20)) },
    { weight: 4, name: "fault", run: (draw) => client.disturbed(CHATS, disturbed(draw)) },
    { weight: 3, name: "bad body", run: posts(CHATS, (draw) => draw.of(BAD_BODIES), [400, 422, 500]) },
    { weight: 3, name: "tools", run: posts(CHATS, (draw) => chat(draw, { tools: [WEATHER], stream: draw.coin() })) },
    { weight: 3, name: "schema", run: posts(CHATS, (draw) => chat(draw, { response_format: SCHEMA })) },
    { weight: 2, name: "logprobs", run: posts(CHATS, (draw) => chat(draw, { logprobs: true, top_logprobs: 3 })) },
    { weight: 2, name: "responses", run: posts("/v1/responses", response) },
    { weight: 1, name: "models", run: async () => void (await client.get("/v1/models")) },
  ];
}

/** Actions for the vLLM role only. */
export function vllmActions(client: SoakClient): WeightedAction[] {
  const messages = (draw: Draw) => ({
    ...{ model: MODEL, max_tokens: 30, messages: userMessage(prompt(draw)), stream: draw.coin() },
  });
  const fixture = (draw: Draw) => chat(draw, { messages: userMessage(`fixture-question ${text(draw, 5)}`) });
  /** A body for the reading thread. It is refused, because the prompt is longer than the context. */
  const large = (draw: Draw) => chat(draw, { messages: userMessage(text(draw, 70_000)) });
  return [
    { weight: 2, name: "messages", run: async (draw) => void (await client.post("/v1/messages", messages(draw))) },
    { weight: 2, name: "tokenize", run: async (draw) => void (await client.post("/tokenize", chat(draw))) },
    { weight: 2, name: "fixture", run: async (draw) => void (await client.post(CHATS, fixture(draw))) },
    { weight: 0.3, name: "large body", run: async (draw) => void (await client.post(CHATS, large(draw), [400])) },
    { weight: 0.5, name: "truth", run: async () => void (await client.get("/understudy/requests?limit=50")) },
  ];
}

/** Actions for the trtllm-serve role only. */
export const trtllmActions = (client: SoakClient): WeightedAction[] => [
  { weight: 0.5, name: "performance", run: async () => void (await client.get("/perf_metrics")) },
];
