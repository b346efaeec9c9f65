/** Reads what an answer says: text, reasoning, tool calls, finish and usage, whatever the dialect of its JSON. */

/** A tool call. `args`: the JSON text of its arguments. */
interface ToolCall {
  name: string;
  args: string;
}

/** One choice of an answer. Empty texts and absent ones are the same. */
export interface AnswerChoice {
  text: string;
  reasoning: string;
  readonly calls: ToolCall[];
  finish: string | null;
}

export interface ReadAnswer {
  readonly choices: readonly AnswerChoice[];
  /** Tokens of the prompt and of the answer. Null if the answer does not tell. */
  readonly usage: readonly [prompt: number, completion: number] | null;
  /** Log probabilities of the sampled tokens, by choice. */
  readonly logprobs: readonly (readonly number[])[];
  /** Message of an error in the stream. Null: there is none. */
  readonly error: string | null;
}

interface Part {
  readonly content?: string | null;
  readonly reasoning?: string | null;
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly function?: { readonly name?: string | null; readonly arguments?: string | null };
  }[];
}

interface Body {
  readonly choices?: readonly {
    readonly index?: number;
    readonly text?: string;
    readonly message?: Part;
    readonly delta?: Part;
    readonly finish_reason?: string | null;
    readonly logprobs?: {
      readonly content?: readonly { readonly logprob: number }[] | null;
      readonly token_logprobs?: readonly (number | null)[] | null;
    } | null;
  }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string };
}

/** Reads a whole answer, or the frames of a stream. Returns null if it is not an answer with choices. */
export function readAnswer({
  body,
  frames,
}: {
  readonly body?: string;
  readonly frames?: readonly string[];
}): ReadAnswer | null {
  const bodies = frames ? frames.flatMap(bodyOfFrame) : [parsed(body ?? "")];
  if (!bodies.some(({ choices }) => Array.isArray(choices))) return null;
  const choices: AnswerChoice[] = [];
  const logprobs: number[][] = [];
  let usage: ReadAnswer["usage"] = null;
  let error: string | null = null;
  for (const part of bodies) {
    error ??= part.error?.message ?? null;
    if (part.usage) usage = [part.usage.prompt_tokens, part.usage.completion_tokens ?? 0];
    for (const { index = 0, text, message, delta, finish_reason, logprobs: given } of part.choices ?? []) {
      choices[index] ??= { text: "", reasoning: "", calls: [], finish: null };
      const choice = choices[index];
      const said = message ?? delta ?? {};
      choice.text += text ?? said.content ?? "";
      choice.reasoning += said.reasoning ?? "";
      choice.finish = finish_reason ?? choice.finish;
      for (const [at, call] of (said.tool_calls ?? []).entries()) {
        const place = call.index ?? at;
        choice.calls[place] ??= { name: "", args: "" };
        choice.calls[place].name += call.function?.name ?? "";
        choice.calls[place].args += call.function?.arguments ?? "";
      }
      const listed = given?.content?.map(({ logprob }) => logprob) ?? given?.token_logprobs ?? [];
      logprobs[index] = [...(logprobs[index] ?? []), ...listed.map((value) => value ?? Number.NaN)];
    }
  }
  return { choices, usage, logprobs, error };
}

function bodyOfFrame(frame: string): readonly Body[] {
  const data = /^data: (.*)$/ms.exec(frame)?.[1];
  return data === undefined || data === "[DONE]" ? [] : [parsed(data)];
}

function parsed(text: string): Body {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
