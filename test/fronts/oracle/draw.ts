/**
 * Draws the requests of the oracle: prompts, fields and the tokens of the answer, from a seed. The tokens are those of the
 * tests' model, whose vocabulary of 580 splits most characters that are not ASCII.
 */
import { seeded } from "../../../src/base/random.ts";
import { tokens } from "./vocabulary.ts";

/** A request, and the tokens that its answer must have. */
export interface OracleRequest {
  readonly seed: number;
  readonly kind: Kind;
  readonly path: "/v1/chat/completions" | "/v1/completions";
  readonly body: Readonly<Record<string, unknown>>;
  readonly tokens: readonly number[];
}

export const KINDS = ["completion", "chat", "stop", "logprobs", "structured", "tools", "reasoning", "bytes"] as const;
export type Kind = (typeof KINDS)[number];

const EOS = 1;
const TEXTS = [
  ..."One, two, three. The answer is 42.|Grüße aus Köln, ça va?|Добрый день, как дела?|今日は良い天気です。|你好，世界！再见。".split(
    "|",
  ),
  ...'안녕하세요 세계|مرحبا بالعالم|שלום עולם|नमस्ते दुनिया|สวัสดีชาวโลก|👍🏽 ok 👩‍👩‍👧‍👦 🇩🇪|e\u0301a\u0308 combining z\u0335|line\nline\ttab \\ "quoted"'.split(
    "|",
  ),
  ...' leading and trailing |x² ≤ ∑ √2 – “quotes” …|{"a": [1, 2.5, null]}|<b>&amp;</b>|```ts\nconst a = 1;\n```'.split(
    "|",
  ),
];
const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "x",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const CITIES = ["Paris", "Köln", "東京", "São Paulo", 'a \\"b\\" c', "🌧️", "New\\nYork", ""];

/** Returns the request of a seed. The same seed always gives the same request. */
export function drawRequest(seed: number): OracleRequest {
  const random = seeded(seed);
  const below = (count: number) => random() % count;
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
  const text = () => Array.from({ length: 1 + below(3) }, () => pick(TEXTS)).join(pick(["", " ", "\n"]));
  const kind = pick(KINDS);
  const isChat =
    kind === "chat" || kind === "tools" || kind === "reasoning" || (kind !== "completion" && below(2) === 0);
  const stream = below(2) === 0;
  const common = {
    model: "golden",
    ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
    ...(isChat ? { messages: [{ role: "user", content: pick(TEXTS) }] } : { prompt: `Say: ${pick(TEXTS)}` }),
    ...(below(4) === 0 ? { max_tokens: 1 + below(30) } : { max_tokens: 400 }),
    ...(below(6) === 0 ? { temperature: 0.5, seed: below(1000) } : {}),
  };
  const made = (fields: object, answer: readonly number[]): OracleRequest => ({
    seed,
    kind,
    path: isChat ? "/v1/chat/completions" : "/v1/completions",
    body: { ...common, ...fields },
    tokens: answer,
  });
  const ended = (answer: string) => [...tokens(answer), EOS];
  switch (kind) {
    case "completion":
    case "chat":
      return made(below(5) === 0 ? { ignore_eos: true, max_tokens: 1 + below(40) } : {}, ended(text()));
    case "stop": {
      const answer = text();
      const [from, length] = [below(answer.length), 1 + below(4)];
      const stop = [
        ...new Set([answer.slice(from, from + length), ...(below(2) === 0 ? [pick(["42", "は", "!", "o"])] : [])]),
      ];
      // A half of a surrogate pair is no text.
      const whole = stop.filter((part) => part !== "" && part.isWellFormed());
      const include = below(3) === 0 ? { include_stop_str_in_output: true } : {};
      return made({ ...(whole.length > 0 ? { stop: whole } : {}), ...include }, ended(answer));
    }
    case "logprobs":
      return made(isChat ? { logprobs: true, top_logprobs: below(4) } : { logprobs: below(4) }, ended(text()));
    case "structured": {
      const [structured_outputs, answer] = pick<readonly [object, string]>([
        [{ choice: ["yes", "no", "vielleicht"] }, "vielleicht"],
        [{ regex: "[0-9]{4}-[0-9]{2}" }, "2026-11"],
        [{ json: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] } }, '{"a": 12}'],
        [{ json: { type: "string" } }, JSON.stringify(pick(TEXTS))],
      ]);
      return made({ structured_outputs }, ended(answer));
    }
    case "tools": {
      const call = () => `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${pick(CITIES)}"}}\n</tool_call>`;
      const [choice, answer] = pick<readonly [string | object, string]>([
        ["auto", call()],
        ["auto", `${text()}${call()}`],
        ["auto", `${call()}\n${call()}`],
        ["auto", text()],
        ["required", call()],
        ["required", call() + call()],
        ["none", text()],
      ]);
      return made({ tools: [TOOL], tool_choice: choice }, ended(answer));
    }
    case "reasoning":
      return made(
        {},
        ended(
          pick([
            `<think>${text()}</think>${text()}`,
            `<think>\n${text()}\n</think>\n\n${text()}`,
            `${text()}</think>${text()}`,
          ]),
        ),
      );
    case "bytes": {
      // Any tokens, so that text is often no UTF-8.
      const answer = Array.from({ length: 2 + below(24) }, () => 8 + below(560));
      return made({}, [...answer, EOS]);
    }
  }
}
