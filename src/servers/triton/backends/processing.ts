/**
 * Implements the Python models before and after `tensorrt_llm`: `preprocessing/1/model.py` and `postprocessing/1/model.py` of
 * TensorRT-LLM's repository (1.3 line). They convert text to token ids and back. A word list is a tensor of ids and of the end
 * of each word.
 */

import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "../behaviours/behaviour.ts";
import { numbersIn, numberTensor, textsIn, textTensor } from "../behaviours/values.ts";
import { bytesOf, elementCount, fromBytesText, LENGTH_BYTES, type Tensor } from "../tensors/datatypes.ts";
import type { LlmDeps } from "./around.ts";
import { encodeText, textBytesIn } from "./prompt-text.ts";

/** Keeps the outputs that the model's configuration declares. */
const declaredOutputs = ({ config }: ModelHost, tensors: readonly Tensor[]): ModelResponse => ({
  outputs: tensors.filter(({ name }) => config.output?.some((output) => output.name === name)),
});

export function preprocessing(deps: LlmDeps): Behaviour {
  const { encoder, vocabulary, tokenizerInfo } = deps.text;
  let padId: Promise<number> | null = null;
  const padding = () => {
    const pad = tokenizerInfo.pad_token;
    padId ??=
      typeof pad === "string"
        ? encoder.encode([pad], true).then(([id]) => id ?? vocabulary.eosId)
        : Promise.resolve(vocabulary.eosId);
    return padId;
  };
  return {
    async execute(requests, host) {
      const pad = await padding();
      return Promise.all(requests.map(async (request) => declaredOutputs(host, await tensorsOf(request, deps, pad))));
    },
  };
}

async function tensorsOf(request: ModelRequest, deps: LlmDeps, pad: number): Promise<Tensor[]> {
  const { encoder, vocabulary } = deps.text;
  const encode = (text: Uint8Array) => encodeText(deps, text);
  const [bad, stop, biased] = ["BAD_WORDS_DICT", "STOP_WORDS_DICT", "EMBEDDING_BIAS_WORDS"].map((name) =>
    fewWords(request, name),
  );
  const queries = textBytesIn(request, "QUERY") ?? [];
  const batch = queries.length;
  const single = (name: string, values: readonly number[]) => numberTensor(name, "INT32", [batch, 1], values);
  const lengthsOf = (rows: readonly Uint32Array[]) => rows.map(({ length }) => length);
  const row = (otherwise: number) => new Array(batch).fill(otherwise);
  const ids = await Promise.all(queries.map(encode));
  const decoder = textBytesIn(request, "DECODER_QUERY");
  const decoderIds = decoder === null ? row(0).map(() => Uint32Array.of(pad)) : await Promise.all(decoder.map(encode));
  const inputNumbers = (name: string) => (request.inputs.has(name) ? numbersIn(request, name) : null);
  const outputLengths = inputNumbers("REQUEST_OUTPUT_LEN") ?? [];
  const extra = request.inputs.get("PROMPT_TABLE_EXTRA_ID");
  return [
    padded("INPUT_ID", ids, pad),
    single("REQUEST_INPUT_LEN", lengthsOf(ids)),
    padded("DECODER_INPUT_ID", decoderIds, pad),
    single("REQUEST_DECODER_INPUT_LEN", lengthsOf(decoderIds)),
    await wordLists("BAD_WORDS_IDS", bad!, batch, encoder),
    await wordLists("STOP_WORDS_IDS", stop!, batch, encoder),
    await biasOf(request, biased!, batch, deps),
    numberTensor("REQUEST_OUTPUT_LEN", "INT32", [batch, outputLengths.length / batch], outputLengths),
    single("OUT_END_ID", inputNumbers("END_ID") ?? row(vocabulary.eosId)),
    single("OUT_PAD_ID", inputNumbers("PAD_ID") ?? row(pad)),
    ...(extra ? [{ ...extra, name: "OUT_PROMPT_TABLE_EXTRA_IDS" }] : []),
  ];
}

/** Pads rows of ids at their end to equal length. A single row is not copied, because it may have millions of ids. */
function padded(name: string, rows: readonly Uint32Array[], pad: number): Tensor {
  const most = Math.max(0, ...rows.map(({ length }) => length));
  const shape = [rows.length, most];
  if (rows.length === 1) return { name, datatype: "INT32", shape, data: bytesOf("INT32", rows[0]!) };
  const values = new Int32Array(rows.length * most).fill(pad);
  for (const [at, row] of rows.entries()) values.set(row, at * most);
  return { name, datatype: "INT32", shape, data: bytesOf("INT32", values) };
}

/** Most words in one list of a request. */
export const LIST_WORDS_MOST = 4096;
/** Most bytes, and most ids, of all words in such a list. Limited because parts of the work are not split into pieces. */
export const WORD_BYTES_MOST = 65_536;
/** Words that are encoded at the same time. The event loop runs between such groups. */
const WORDS_AT_ONCE = 64;

/** Returns the words of a list, or null if the input is missing. Throws if there are too many, before they are decoded. */
export function fewWords(request: ModelRequest, name: string): readonly string[] | null {
  const tensor = request.inputs.get(name);
  if (tensor === undefined) return null;
  const count = elementCount(tensor.shape);
  if (count > LIST_WORDS_MOST) throw new Error(`${name} has ${count} words: a stand-in takes ${LIST_WORDS_MOST}`);
  const bytes = tensor.data.length - count * LENGTH_BYTES;
  if (bytes > WORD_BYTES_MOST)
    throw new Error(`${name} has words of ${bytes} bytes: a stand-in takes ${WORD_BYTES_MOST}`);
  return textsIn(request, name);
}

async function idsOf(words: readonly string[], encoder: Encoder): Promise<Uint32Array[]> {
  const ids: Uint32Array[] = [];
  for (let from = 0; from < words.length; from += WORDS_AT_ONCE) {
    const batch = words.slice(from, from + WORDS_AT_ONCE);
    ids.push(...(await Promise.all(batch.map((word) => encoder.encode([fromBytesText(word)], true)))));
  }
  return ids;
}

type Encoder = LlmDeps["text"]["encoder"];

/** Encodes word lists: per row of the batch the ids of all words, padded with 0, then the end of each word, padded with -1. */
async function wordLists(
  name: string,
  words: readonly string[] | null,
  batch: number,
  encoder: Encoder,
): Promise<Tensor> {
  if (words === null) return numberTensor(name, "INT32", [batch, 2, 0], []);
  const ids = await idsOf(words, encoder);
  const each = words.length / batch;
  const rows = Array.from({ length: batch }, (_, at) => {
    const wordIds = ids.slice(at * each, (at + 1) * each).filter(({ length }) => length > 0);
    let end = 0;
    return { flat: wordIds.flatMap((one) => [...one]), ends: wordIds.map(({ length }) => (end += length)) };
  });
  const most = Math.max(1, ...rows.map(({ flat }) => flat.length));
  const filled = (values: readonly number[], by: number) => [...values, ...new Array(most - values.length).fill(by)];
  const values = rows.flatMap(({ flat, ends }) => [...filled(flat, 0), ...filled(ends, -1)]);
  return numberTensor(name, "INT32", [batch, 2, most], values);
}

/** Splits one row of a word list, as `wordLists` encodes it, into its words. Throws if there are too many words or ids. */
export function wordsIn(name: string, list: ArrayLike<number>): Uint32Array[] {
  const count = Math.floor(list.length / 2);
  if (count > WORD_BYTES_MOST) throw new Error(`${name} has ${count} ids: a stand-in takes ${WORD_BYTES_MOST}`);
  const words: Uint32Array[] = [];
  let from = 0;
  for (let at = 0; at < count; at++) {
    const end = list[count + at]!;
    if (end <= from) continue;
    if (words.length === LIST_WORDS_MOST)
      throw new Error(`${name} has more words than the ${LIST_WORDS_MOST} that a stand-in takes`);
    const ids = Math.min(end, count) - Math.min(from, count);
    words.push(Uint32Array.from({ length: ids }, (_, id) => list[from + id]!));
    from = end;
  }
  return words;
}

async function biasOf(
  request: ModelRequest,
  words: readonly string[] | null,
  batch: number,
  { text }: LlmDeps,
): Promise<Tensor> {
  const weights = numbersIn(request, "EMBEDDING_BIAS_WEIGHTS");
  if (words === null || weights.length === 0) return numberTensor("EMBEDDING_BIAS", "FP32", [batch, 0], []);
  if (words.length !== weights.length)
    throw new Error("Embedding bias words must have same dimension as embedding bias weights");
  const { size } = text.vocabulary;
  const bias: number[] = new Array(batch * size).fill(0);
  const each = words.length / batch;
  for (const [at, ids] of (await idsOf(words, text.encoder)).entries())
    for (const id of ids) bias[Math.floor(at / each) * size + id]! += weights[at]!;
  return numberTensor("EMBEDDING_BIAS", "FP32", [batch, size], bias);
}

export const postprocessing = ({ text }: LlmDeps): Behaviour => ({
  execute: (requests, host) =>
    requests.map((request) => declaredOutputs(host, [decoded(request, host, text.vocabulary)])),
});

/** Decodes each beam of each row as one text. Drops special tokens; invalid UTF-8 becomes U+FFFD. */
function decoded(request: ModelRequest, { config }: ModelHost, vocabulary: Vocabulary): Tensor {
  const ids = numbersIn(request, "TOKENS_BATCH");
  const lengths = numbersIn(request, "SEQUENCE_LENGTH");
  const most = lengths.length === 0 ? 0 : ids.length / lengths.length;
  const keeps = /^(false|0|f|n|no)$/i.test(config.parameters?.skip_special_tokens?.string_value ?? "");
  const texts = lengths.map((length, at) => {
    const rowIds = ids.slice(at * most, at * most + length).filter((id) => keeps || !vocabulary.isSpecial(id));
    return Buffer.concat(rowIds.map((id) => Buffer.from(vocabulary.bytesOf(id)))).toString();
  });
  const bytes = texts.map((text) => Buffer.from(text).toString("latin1"));
  return textTensor("OUTPUT", [texts.length], bytes);
}
