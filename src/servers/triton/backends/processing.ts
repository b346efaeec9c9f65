/**
 * What do the two Python models around `tensorrt_llm` do? Texts become ids and ids texts, as in `preprocessing/1/model.py` and
 * `postprocessing/1/model.py` of TensorRT-LLM's repository (1.3 line): lists of words as ids with the ends of each.
 */

import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "../behaviours/behaviour.ts";
import { numbersIn, numberTensor, textsIn, textTensor } from "../behaviours/values.ts";
import { bytesOf, elementCount, fromBytesText, type Tensor } from "../tensors/datatypes.ts";
import type { LlmAround } from "./around.ts";
import { encodeText, textBytesIn } from "./prompt-text.ts";

/** The outputs that the model's configuration names. */
const named = ({ config }: ModelHost, tensors: readonly Tensor[]): ModelResponse => ({
  outputs: tensors.filter(({ name }) => config.output?.some((one) => one.name === name)),
});

export function preprocessing(around: LlmAround): Behaviour {
  const { encoder, vocabulary, tokenizerInfo } = around.text;
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
      return Promise.all(requests.map(async (request) => named(host, await tensorsOf(request, around, pad))));
    },
  };
}

async function tensorsOf(request: ModelRequest, around: LlmAround, pad: number): Promise<Tensor[]> {
  const { encoder, vocabulary } = around.text;
  const encode = (text: Uint8Array) => encodeText(around, text);
  const [bad, stop, biased] = ["BAD_WORDS_DICT", "STOP_WORDS_DICT", "EMBEDDING_BIAS_WORDS"].map((name) =>
    fewWords(request, name),
  );
  const queries = textBytesIn(request, "QUERY") ?? [];
  const batch = queries.length;
  const single = (name: string, values: readonly number[]) => numberTensor(name, "INT32", [batch, 1], values);
  const row = (otherwise: number) => new Array(batch).fill(otherwise);
  const ids = await Promise.all(queries.map(encode));
  const decoder = textBytesIn(request, "DECODER_QUERY");
  const decoderIds = decoder === null ? row(0).map(() => Uint32Array.of(pad)) : await Promise.all(decoder.map(encode));
  const given = (name: string) => (request.inputs.has(name) ? numbersIn(request, name) : null);
  const wanted = given("REQUEST_OUTPUT_LEN") ?? [];
  const extra = request.inputs.get("PROMPT_TABLE_EXTRA_ID");
  return [
    padded("INPUT_ID", ids, pad),
    single(
      "REQUEST_INPUT_LEN",
      ids.map(({ length }) => length),
    ),
    padded("DECODER_INPUT_ID", decoderIds, pad),
    single(
      "REQUEST_DECODER_INPUT_LEN",
      decoderIds.map(({ length }) => length),
    ),
    await wordLists("BAD_WORDS_IDS", bad!, batch, encoder),
    await wordLists("STOP_WORDS_IDS", stop!, batch, encoder),
    await biasOf(request, biased!, batch, around),
    numberTensor("REQUEST_OUTPUT_LEN", "INT32", [batch, wanted.length / batch], wanted),
    single("OUT_END_ID", given("END_ID") ?? row(vocabulary.eosId)),
    single("OUT_PAD_ID", given("PAD_ID") ?? row(pad)),
    ...(extra ? [{ ...extra, name: "OUT_PROMPT_TABLE_EXTRA_IDS" }] : []),
  ];
}

/** Rows of one length, filled up at their end. A row alone is taken as it is, because it may have millions of ids. */
function padded(name: string, rows: readonly Uint32Array[], pad: number): Tensor {
  const most = Math.max(0, ...rows.map(({ length }) => length));
  const shape = [rows.length, most];
  if (rows.length === 1) return { name, datatype: "INT32", shape, data: bytesOf(rows[0]!) };
  const values = new Int32Array(rows.length * most).fill(pad);
  for (const [at, row] of rows.entries()) values.set(row, at * most);
  return { name, datatype: "INT32", shape, data: bytesOf(values) };
}

/** Words of a list of a request, at most. */
export const LIST_WORDS_MOST = 4096;
/** Bytes of all words of such a list, and ids of all words, at most: some of the work with them is done in one go. */
export const WORD_BYTES_MOST = 65_536;
/** Bytes of the length before each text of a tensor. */
const LENGTH_BYTES = 4;
/** Words that are with the encoder at once: the event loop turns while it answers. */
const WORDS_AT_ONCE = 64;

/** The words of a list, or null if the request has no such input. Throws if there are too many, before they become texts. */
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
    const some = words.slice(from, from + WORDS_AT_ONCE);
    ids.push(...(await Promise.all(some.map((word) => encoder.encode([fromBytesText(word)], true)))));
  }
  return ids;
}

type Encoder = LlmAround["text"]["encoder"];

/** Per row of the batch the ids of all words, then where each word ends, filled up with 0 and -1. */
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
    const own = ids.slice(at * each, (at + 1) * each).filter(({ length }) => length > 0);
    let end = 0;
    return { flat: own.flatMap((one) => [...one]), ends: own.map(({ length }) => (end += length)) };
  });
  const most = Math.max(1, ...rows.map(({ flat }) => flat.length));
  const filled = (values: readonly number[], by: number) => [...values, ...new Array(most - values.length).fill(by)];
  return numberTensor(
    name,
    "INT32",
    [batch, 2, most],
    rows.flatMap(({ flat, ends }) => [...filled(flat, 0), ...filled(ends, -1)]),
  );
}

/** Splits such a list of one row, whose ids and ends stand one after the other, into its words. Throws if there are too many. */
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
  { text }: LlmAround,
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

export const postprocessing = ({ text }: LlmAround): Behaviour => ({
  execute: (requests, host) => requests.map((request) => named(host, [decoded(request, host, text.vocabulary)])),
});

/** Each beam of each row is a text of its own: special tokens have none, and bytes that are no character become U+FFFD. */
function decoded(request: ModelRequest, { config }: ModelHost, vocabulary: Vocabulary): Tensor {
  const ids = numbersIn(request, "TOKENS_BATCH");
  const lengths = numbersIn(request, "SEQUENCE_LENGTH");
  const most = lengths.length === 0 ? 0 : ids.length / lengths.length;
  const keeps = /^(false|0|f|n|no)$/i.test(config.parameters?.skip_special_tokens?.string_value ?? "");
  const texts = lengths.map((length, at) => {
    const own = ids.slice(at * most, at * most + length).filter((id) => keeps || !vocabulary.isSpecial(id));
    return Buffer.concat(own.map((id) => Buffer.from(vocabulary.bytesOf(id)))).toString();
  });
  return textTensor(
    "OUTPUT",
    [texts.length],
    texts.map((one) => Buffer.from(one).toString("latin1")),
  );
}
