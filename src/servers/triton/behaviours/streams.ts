/**
 * Built-in behaviours that answer a request several times: a repeater of words, and the parts of a language model's ensemble.
 */
import { fromBytesText, toBytesText } from "../tensors/datatypes.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "./behaviour.ts";
import type { BehaviourOptions } from "./options.ts";
import { firstNumber, firstText, numbersIn, numberTensor, outputs, textTensor } from "./values.ts";

const CANCELLED: ModelResponse = { error: { message: "Request was cancelled", code: "CANCELLED" } };

/**
 * Streams the words of `text_input` as `text_output`, starting over after the last word. Decoupled: `execute` returns at once,
 * like vLLM's backend. Inputs: `max_tokens` words (default: all words once), `sleep_ms` before each (10), and `stream`, which
 * is false for one response. `mode`: `empty_final` sends the final flag alone, `error_at:K` fails at word K. `options.index`: adds
 * `batch_index` and `sequence_index`.
 */
export function repeatWords({ index = false }: BehaviourOptions): Behaviour {
  return {
    execute(requests, host) {
      for (const request of requests) void streamWords(request, host, index);
      return null;
    },
  };
}

async function streamWords(request: ModelRequest, host: ModelHost, index: boolean): Promise<void> {
  const words = firstText(request, "text_input")
    .split(/[ \t\n\r\f\v]+/)
    .filter(Boolean);
  if (words.length === 0) words.push("");
  const count = firstNumber(request, "max_tokens", words.length);
  const streams = firstNumber(request, "stream", 1) !== 0;
  const gapMs = firstNumber(request, "sleep_ms", 10);
  const mode = firstText(request, "mode");
  const failsAt = Number(/^error_at:(0|[1-9]\d*)$/.exec(mode)?.[1] ?? -1);
  const answer = (text: string): ModelResponse => {
    const tensor = textTensor("text_output", [1], [text]);
    if (!index) return { outputs: [tensor] };
    return outputs(tensor, ...["batch_index", "sequence_index"].map((name) => numberTensor(name, "INT32", [1], [0])));
  };
  const pieces = words.map((word) => ` ${word}`);
  let whole = "";
  for (let i = 0; i < count; i++) {
    await host.sleep(gapMs);
    if (request.cancelled) return request.send(CANCELLED, true);
    if (i === failsAt) return request.send({ error: { message: "boom in the stream" } }, true);
    const piece = i === 0 ? words[0]! : pieces[i % words.length]!;
    if (streams) request.send(answer(piece), i === count - 1 && mode !== "empty_final");
    else whole += piece;
  }
  if (!streams) request.send(answer(whole), mode !== "empty_final");
  if (mode === "empty_final" || count <= 0) request.send(null, true);
}

/**
 * Imitates a step of the classic TensorRT-LLM ensemble, selected by `options.part`, with the tensors of its repository. A token
 * is the code point of a character. `tensorrt_llm` repeats the prompt's characters.
 */
export function llm({ part = "tensorrt_llm" }: BehaviourOptions): Behaviour {
  if (part === "preprocessing") return { execute: (requests) => requests.map(preprocess) };
  if (part === "postprocessing") return { execute: (requests) => requests.map(postprocess) };
  return {
    execute(requests, host) {
      for (const request of requests) void generate(request, host);
      return null;
    },
  };
}

function preprocess(request: ModelRequest): ModelResponse {
  const ids = Array.from(fromBytesText(firstText(request, "QUERY")), (character) => character.codePointAt(0)!);
  const outputLength = request.inputs.get("REQUEST_OUTPUT_LEN")!;
  return outputs(
    numberTensor("INPUT_ID", "INT32", [1, ids.length], ids),
    numberTensor("REQUEST_INPUT_LEN", "INT32", [1, 1], [ids.length]),
    outputLength,
  );
}

function postprocess(request: ModelRequest): ModelResponse {
  const text = String.fromCodePoint(...numbersIn(request, "TOKENS_BATCH"));
  return outputs(textTensor("OUTPUT", [1, 1], [toBytesText(text)]));
}

const TOKEN_MS = 10;

async function generate(request: ModelRequest, host: ModelHost): Promise<void> {
  const ids = numbersIn(request, "input_ids");
  const count = firstNumber(request, "request_output_len", 0);
  const streams = firstNumber(request, "streaming", 0) !== 0;
  if (count <= 0) {
    const message = "Encountered an error when fetching new request: maxNewTokens must be positive";
    return request.send({ error: { message } }, true);
  }
  const made = Array.from({ length: count }, (_, at) => ids[at % ids.length]!);
  for (const [at, id] of made.entries()) {
    await host.sleep(TOKEN_MS);
    if (request.cancelled) return request.send(CANCELLED, true);
    if (streams) request.send(tokens([id]), at === count - 1);
  }
  if (!streams) request.send(tokens(made), true);
}

function tokens(ids: readonly number[]): ModelResponse {
  const single = [1, 1];
  return outputs(
    numberTensor("output_ids", "INT32", [1, 1, ids.length], ids),
    numberTensor("sequence_length", "INT32", single, [ids.length]),
    numberTensor("cum_log_probs", "FP32", single, [0]),
    numberTensor("batch_index", "INT32", single, [0]),
    numberTensor("sequence_index", "INT32", single, [0]),
  );
}
