/**
 * Explains differences between our server's answers and those of a real front end over our engine, for the same request and
 * tokens. None may be ours. `npx bun test/fronts/oracle/ask.ts --seed N` shows the answers to one request.
 */
import type { AnswerChoice, ReadAnswer } from "../answers.ts";
import type { FrontName } from "../real-front.ts";
import type { OracleRequest } from "./draw.ts";
import { bytesOf, isSpecial } from "./vocabulary.ts";

interface Explanation {
  readonly name: string;
  readonly front: FrontName;
  /** The front end's own doing, or another reading of an API. */
  readonly whose: "front end" | "dialect";
  readonly why: string;
  /** Options of `ask.ts` that show it. Null: it depends on steps that the front end merges, and so on time. */
  readonly example: string | null;
  /** Returns our answer as it would be with this difference. */
  readonly apply: (own: ReadAnswer, other: ReadAnswer, request: OracleRequest) => ReadAnswer;
}

/** Applies a change to the text and reasoning of the only choice. */
function changed(answer: ReadAnswer, change: (part: { text: string; reasoning: string }) => object): ReadAnswer {
  const [choice] = answer.choices;
  return choice === undefined ? answer : { ...answer, choices: [{ ...choice, ...change(choice) }] };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Text of the tokens, as far as they have been sent. */
function textOf({ tokens }: OracleRequest, count: number): string {
  const sent = tokens.slice(0, count).filter((id) => !isSpecial(id));
  return Buffer.concat(sent.map(bytesOf)).toString();
}

export const EXPLANATIONS: readonly Explanation[] = [
  {
    name: "incomplete-character",
    front: "vllm-rs",
    whose: "front end",
    why: "It writes U+FFFD for the bytes of a character that the last token leaves incomplete. vLLM's Python leaves them out.",
    example: "--seed 17",
    apply(own, other) {
      const [is] = other.choices;
      return changed(own, ({ text, reasoning }) => {
        const tail = /\ufffd*$/.exec(is!.text !== "" ? is!.text : is!.reasoning)![0];
        const longer = (part: string) => (tail === "" ? part : part.replace(/\ufffd*$/, "") + tail);
        return is!.text !== "" ? { text: longer(text) } : { reasoning: longer(reasoning) };
      });
    },
  },
  {
    name: "text-after-call",
    front: "vllm-rs",
    whose: "front end",
    why: "It returns what follows a tool call as text: the line end between two calls, or the end of a call that was cut.",
    example: "--seed 6",
    apply: (own, other, { kind }) =>
      kind === "tools" && own.choices[0]!.calls.length > 0
        ? changed(own, ({ text }) => {
            const [is] = other.choices;
            return {
              text: is!.text.startsWith(text) && /^[}\s]*$/.test(is!.text.slice(text.length)) ? is!.text : text,
            };
          })
        : own,
  },
  {
    name: "call-cut-by-length",
    front: "vllm-rs",
    whose: "front end",
    why: "It reads a call that was cut by length in another way: its beginning is text without the tag, or a call.",
    example: "--seed 421",
    apply(own, other, request) {
      const [is] = other.choices;
      if (request.kind !== "tools" || is!.finish !== "length") return own;
      const said = textOf(request, own.usage?.[1] ?? 0);
      // The parser of Python may add empty arguments to a call that is cut, which depends on the steps.
      const whole = ({ calls }: AnswerChoice) =>
        JSON.stringify(calls.map(({ args }) => args.replace(/\{\}$/, "")).filter(isJson));
      const parts = [is!.text, ...is!.calls.map(({ args }) => args)].map((part) => part.replace(/\ufffd+$/, ""));
      const untagged = said.replace(/<tool_call>\n?/g, "");
      const isSaid = parts.every((part) => said.includes(part) || untagged.includes(part));
      // Python returns all calls of a whole answer as text, if one is cut.
      const isText = own.choices[0]!.calls.length === 0 && said.includes(own.choices[0]!.text);
      if (!isSaid || !(isText || whole(is!) === whole(own.choices[0]!))) return own;
      return changed(own, () => ({ text: is!.text, calls: is!.calls }));
    },
  },
  {
    name: "cut-call-in-one-step",
    front: "python",
    whose: "front end",
    why: "Its parser hermes adds {} to the arguments of a streamed call that was cut by length, if it got all of it at once.",
    example: null,
    apply(own, other, { kind, body }) {
      const [is] = other.choices;
      if (kind !== "tools" || body.stream !== true || is!.finish !== "length") return own;
      const plain = ({ calls }: AnswerChoice) =>
        JSON.stringify(calls.map((call) => ({ ...call, args: call.args.replace(/\{\}$/, "") })));
      return plain(is!) === plain(own.choices[0]!) ? changed(own, () => ({ calls: is!.calls })) : own;
    },
  },
  {
    name: "reasoning-without-tag",
    front: "vllm-rs",
    whose: "dialect",
    why: "Its parser qwen3 takes text for reasoning only after the tag that opens it. vLLM's Python expects only the closing tag.",
    example: "--seed 4 --reasoning qwen3",
    apply: (own, _, request) =>
      textOf(request, 4).startsWith("<think>") || own.choices[0]!.reasoning === ""
        ? own
        : changed(own, ({ text, reasoning }) => {
            const isClosed = textOf(request, own.usage?.[1] ?? request.tokens.length).includes("</think>");
            return { reasoning: "", text: `${reasoning}${isClosed ? "</think>" : ""}${text}` };
          }),
  },
  {
    name: "reasoning-trimmed",
    front: "vllm-rs",
    whose: "dialect",
    why: "Its parser qwen3 leaves out line ends around reasoning and before the text that follows.",
    example: "--seed 23 --reasoning qwen3",
    apply: (own, _, { kind }) =>
      kind === "reasoning"
        ? changed(own, ({ text, reasoning }) => ({
            text: text.replace(/^\n+/, ""),
            reasoning: reasoning.replace(/^\n+|\n+$/g, ""),
          }))
        : own,
  },
];

/** Returns the names of explanations that together make both answers equal, or null. */
export function explained(
  front: FrontName,
  own: ReadAnswer,
  other: ReadAnswer,
  request: OracleRequest,
): readonly string[] | null {
  const known = EXPLANATIONS.filter((each) => each.front === front);
  const wanted = JSON.stringify(other);
  for (let set = 1; set < 1 << known.length; set++) {
    const used = known.filter((_, at) => (set >> at) & 1);
    // Some differences show only before others, and some only after.
    for (const order of [used, used.toReversed()]) {
      const made = order.reduce((answer, { apply }) => apply(answer, other, request), own);
      if (JSON.stringify(made) === wanted) return used.map(({ name }) => name);
    }
  }
  return null;
}
