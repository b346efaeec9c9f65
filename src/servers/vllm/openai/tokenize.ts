/**
 * Answers POST `/tokenize` and `/detokenize`, which convert texts and chats to token IDs and back, without the engine. Source:
 * vLLM 0.33, `entrypoints/serve/tokenize/protocol.py` and `serving.py`.
 */

import { inTurns, type Pieces } from "../../../base/pieces.ts";
import { byteCharacters } from "../../../text/tokens/byte-characters.ts";
import type { PackedParts } from "../../../text/tokens/packed-parts.ts";
import { answered, type CheckedFields, type RouteDeps } from "../../openai/front/checked.ts";
import type { Context } from "../../openai/front/http.ts";
import type { PromptToEncode } from "../../openai/front/reading/messages.ts";
import type { AnswerParts } from "../../openai/front/send-parts.ts";
import { LongBody, LongTexts } from "../../openai/pipeline/long-body.ts";
import type { OpenAiKernel } from "../../openai/request/openai-config.ts";
import { decodedParts, encodedPacked, encodedPieces } from "../../openai/request/prompts.ts";
import type { Limits } from "../../openai/request/request.ts";
import type { Int, PythonDict } from "../../pydantic/value.ts";
import { promptToEncode, tokenizeBody } from "./tokenize-body.ts";
import { checkFields, detokenizeBody, toTokenIds } from "./tokens.ts";

/** The handlers of `/tokenize` and `/detokenize`. */
export class Tokenizer {
  readonly #kernel: OpenAiKernel;
  readonly #limits: Limits;

  constructor(private readonly deps: RouteDeps) {
    this.#kernel = deps.kernel;
    this.#limits = deps.limits;
  }

  tokenize(context: Context): Promise<Response> {
    const { backend, text } = this.#kernel;
    const answer = (ids: Uint32Array, withTexts: boolean) =>
      inTurns(this.#idsAnswer(ids as Uint32Array<ArrayBuffer>, withTexts), backend);
    const made = async (checked: CheckedFields, body: PythonDict) => {
      const prompt = await inTurns(promptToEncode(checked, body, text.model.renderChat, this.#limits), backend);
      const { parts, allowSpecial, addSpecial, withTexts } = prompt;
      // In pieces, because a chat of many messages has millions of parts.
      const ids = await inTurns(encodedPieces(text.model.encoder, parts, allowSpecial, addSpecial), backend);
      return answer(ids, withTexts);
    };
    const ofPrompt = async ({ parts, allowSpecial, addSpecial, withTexts }: PromptToEncode<PackedParts>) =>
      answer(await encodedPacked(text.model.encoder, parts, allowSpecial, addSpecial), withTexts);
    return answered(context, this.deps, { check: (body) => checkFields(tokenizeBody, body), made, ofPrompt });
  }

  /** Keeps special tokens in the text, and drops IDs outside the vocabulary. */
  detokenize(context: Context): Promise<Response> {
    const ofIds = (ids: Uint32Array<ArrayBuffer>) => inTurns(this.#textAnswer(ids), this.#kernel.backend);
    const made = (checked: CheckedFields) => ofIds(toTokenIds(checked.get("tokens") as Int[]));
    return answered(context, this.deps, { check: (body) => checkFields(detokenizeBody, body), made, ofIds });
  }

  #idsAnswer(ids: Uint32Array<ArrayBuffer>, withTexts: boolean): Pieces<AnswerParts> {
    const long = new LongTexts();
    const list = (textOf: (id: number) => string) => long.text(0, () => listed(ids, textOf));
    const names = withTexts ? list(this.#spelling()) : "null";
    const start = `{"count":${ids.length},"max_model_len":${this.#limits.maxModelLen}`;
    return this.#answer(`${start},"tokens":${list(String)},"token_strs":${names}}`, long, ids);
  }

  #textAnswer(ids: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const { vocabulary } = this.#kernel.text.model;
    const long = new LongTexts();
    const text = long.text(0, function* () {
      for (const part of decodedParts(vocabulary, ids)) yield JSON.stringify(part).slice(1, -1);
    });
    return this.#answer(`{"prompt":"${text}"}`, long, ids);
  }

  /** Returns an answer made of token IDs. A long one is made while it is sent, because it may have hundreds of megabytes. */
  *#answer(body: string, long: LongTexts, { buffer }: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const longBody = new LongBody(body, long);
    yield* longBody.measure(this.#kernel.backend.consumed);
    // The IDs are old objects by then, which only a full collection of garbage would free.
    return longBody.answer(() => void (buffer.byteLength >= OLD_BYTES && buffer.transfer(0)));
  }

  /** Returns a function that writes a token as JSON, and keeps the results, because a text repeats its tokens. */
  #spelling(): (id: number) => string {
    const known = new Map<number, string>();
    return (id) => {
      const cached = known.get(id);
      if (cached !== undefined) return cached;
      const json = JSON.stringify(this.#string(id));
      known.set(id, json);
      return json;
    };
  }

  /** Returns a token as the vocabulary's file spells it, or the text of a special token. */
  #string(id: number): string {
    const { vocabulary, blanks } = this.#kernel.text.model;
    const bytes = vocabulary.bytesOf(id);
    if (vocabulary.isSpecial(id)) return Buffer.from(bytes).toString();
    if (!blanks) return Array.from(bytes, (byte) => BYTE_CHARACTERS[byte]).join("");
    const piece = vocabulary.piece(id);
    return piece?.replaceAll(" ", "▁") ?? `<0x${bytes[0]!.toString(16).toUpperCase().padStart(2, "0")}>`;
  }
}

/** IDs that are written as JSON at a time. */
const IDS_AT_A_TIME = 1024;

/** Bytes from which a buffer of IDs is freed after its use. Smaller arrays may share their buffer. */
const OLD_BYTES = 2 ** 20;

/** Yields the JSON of a list, in which `textOf` writes each ID. */
function* listed(ids: Uint32Array, textOf: (id: number) => string): Generator<string, void> {
  yield "[";
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME)
    yield `${at > 0 ? "," : ""}${Array.from(ids.subarray(at, at + IDS_AT_A_TIME), textOf).join()}`;
  yield "]";
}

const BYTE_CHARACTERS = byteCharacters();
