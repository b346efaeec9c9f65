/**
 * Which ids is a text, and which text are ids? POST `/tokenize` and `/detokenize` of vLLM 0.33
 * (`entrypoints/serve/tokenize/protocol.py`, `serving.py`). No request of these reaches the engine.
 */

import { inTurns, mapped, type Pieces } from "../../../base/pieces.ts";
import { byteCharacters } from "../../../text/tokens/byte-characters.ts";
import type { PromptPart } from "../../../text/tokens/types.ts";
import { answered, type CheckedFields, type RouteDeps } from "../../openai/front/checked.ts";
import type { Context } from "../../openai/front/http.ts";
import type { AnswerParts } from "../../openai/front/send-parts.ts";
import { LongBody, LongTexts } from "../../openai/pipeline/long-body.ts";
import type { OpenAiKernel } from "../../openai/request/openai-config.ts";
import { decodedParts, encodedPieces, incompatible } from "../../openai/request/prompts.ts";
import type { Limits } from "../../openai/request/request.ts";
import { Refused } from "../../pydantic/refusals.ts";
import { optional, record, required, union } from "../../pydantic/structures.ts";
import { bool, dict, list, nullable, object, type Type, text } from "../../pydantic/types.ts";
import { get, type Int, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";
import { type MessageShape, message, messagePieces } from "./content.ts";
import { tool, toolDict } from "./field-types.ts";
import { chatFitting, countable, detokenizeBody } from "./tokens.ts";
import { checkMultimodal, checkTemplate } from "./translate.ts";

type Part = { readonly parts: readonly PromptPart[]; readonly allowSpecial: boolean; readonly addSpecial: boolean };

/** Errors come in the order of the fields. */
export const tokenizeBody: Type<CheckedFields> = union(
  record("TokenizeCompletionRequest", {
    model: optional(nullable(text)),
    prompt: required(text),
    add_special_tokens: optional(bool),
    return_token_strs: optional(nullable(bool)),
  }),
  record("TokenizeChatRequest", {
    model: optional(nullable(text)),
    messages: required(list(message)),
    add_generation_prompt: optional(bool),
    return_token_strs: optional(nullable(bool)),
    continue_final_message: optional(bool),
    add_special_tokens: optional(bool),
    chat_template: optional(nullable(text)),
    chat_template_kwargs: optional(nullable(object)),
    media_io_kwargs: optional(nullable(dict(object))),
    mm_processor_kwargs: optional(nullable(object)),
    tools: optional(nullable(list(tool))),
  }),
);
export class Tokenizer {
  readonly #kernel: OpenAiKernel;
  readonly #limits: Limits;
  readonly #deps: RouteDeps;

  constructor(deps: RouteDeps) {
    this.#kernel = deps.kernel;
    this.#limits = deps.limits;
    this.#deps = deps;
  }

  tokenize(context: Context): Promise<Response> {
    const made = async (checked: CheckedFields, body: PythonDict) => {
      const { backend, text } = this.#kernel;
      const { parts, allowSpecial, addSpecial } = await inTurns(this.#prompt(checked, body), backend);
      // A chat of many messages has millions of parts.
      const ids = await inTurns(encodedPieces(text.model.encoder, parts, allowSpecial, addSpecial), backend);
      return inTurns(
        this.#counted(ids as Uint32Array<ArrayBuffer>, checked.get("return_token_strs") === true),
        backend,
      );
    };
    return answered(context, this.#deps, { check: (body) => chatFitting(tokenizeBody, body), made });
  }

  /** Special tokens stay in the text, ids outside the vocabulary are nothing. */
  detokenize(context: Context): Promise<Response> {
    const ofIds = (ids: Uint32Array<ArrayBuffer>) => inTurns(this.#said(ids), this.#kernel.backend);
    const made = (checked: CheckedFields) => ofIds(countable(checked.get("tokens") as Int[]));
    return answered(context, this.#deps, { check: (body) => chatFitting(detokenizeBody, body), made, ofIds });
  }

  #counted(ids: Uint32Array<ArrayBuffer>, spelled: boolean): Pieces<AnswerParts> {
    const long = new LongTexts();
    const list = (one: (id: number) => string) => long.text(0, () => listed(ids, one));
    const names = spelled ? list(this.#spelling()) : "null";
    const start = `{"count":${ids.length},"max_model_len":${this.#limits.maxModelLen}`;
    return this.#measured(`${start},"tokens":${list(String)},"token_strs":${names}}`, long, ids);
  }

  #said(ids: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const { vocabulary } = this.#kernel.text.model;
    const long = new LongTexts();
    const text = long.text(0, function* () {
      for (const part of decodedParts(vocabulary, ids)) yield JSON.stringify(part).slice(1, -1);
    });
    return this.#measured(`{"prompt":"${text}"}`, long, ids);
  }

  /** An answer that is made of ids. A long one is made as it is sent: with the ids it would take hundreds of megabytes. */
  *#measured(body: string, long: LongTexts, { buffer }: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const made = new LongBody(body, long);
    yield* made.measure(this.#kernel.backend.consumed);
    // Megabytes that are old by now: only a whole collection would find them.
    return made.answer(() => void (buffer.byteLength >= OLD_BYTES && buffer.transfer(0)));
  }

  /** Throws `Refused`. */
  *#prompt(checked: CheckedFields, body: PythonDict): Pieces<Part> {
    const prompt = checked.get("prompt");
    const special = checked.get("add_special_tokens") as boolean | undefined;
    if (prompt !== undefined) {
      checkMultimodal(get(body, "mm_processor_kwargs"), get(body, "media_io_kwargs"));
      return { parts: [prompt as string], allowSpecial: true, addSpecial: special ?? true };
    }
    const orNull = <V>(name: string) => (checked.get(name) ?? null) as V | null;
    checkTemplate({
      chat_template: orNull("chat_template"),
      chat_template_kwargs: orNull("chat_template_kwargs"),
      media_io_kwargs: orNull("media_io_kwargs"),
      mm_processor_kwargs: orNull("mm_processor_kwargs"),
    });
    const shapes = checked.get("messages") as MessageShape[];
    const messages = yield* messagePieces(shapes, get(body, "messages") as PythonValue[], this.#limits);
    const tools = orNull<PythonDict[]>("tools");
    yield;
    const shown = tools && (yield* mapped(tools, toolDict));
    yield;
    const generation = checked.get("add_generation_prompt") !== false;
    if (generation && checked.get("continue_final_message") === true) throw new Refused(incompatible);
    const names = orNull<PythonDict>("chat_template_kwargs");
    const { renderChat } = this.#kernel.text.model;
    const open = checked.get("continue_final_message") === true;
    const plainNames = names === null ? undefined : (toPlain(names) as Record<string, unknown>);
    const given = [messages, generation, open, shown, plainNames] as const;
    const parts = renderChat.pieces === undefined ? renderChat(...given) : yield* renderChat.pieces(...given);
    return { parts, allowSpecial: false, addSpecial: special ?? false };
  }

  /** The spelling of a token as JSON, made once per token: a text has the same ones again and again. */
  #spelling(): (id: number) => string {
    const known = new Map<number, string>();
    return (id) => {
      const before = known.get(id);
      if (before !== undefined) return before;
      const made = JSON.stringify(this.#string(id));
      known.set(id, made);
      return made;
    };
  }

  /** As the vocabulary file spells tokens; special ones stand as they are. */
  #string(id: number): string {
    const { vocabulary, blanks } = this.#kernel.text.model;
    const bytes = vocabulary.bytesOf(id);
    if (vocabulary.isSpecial(id)) return Buffer.from(bytes).toString();
    if (!blanks) return Array.from(bytes, (byte) => BYTE_CHARACTERS[byte]).join("");
    const piece = vocabulary.piece(id);
    return piece?.replaceAll(" ", "▁") ?? `<0x${bytes[0]!.toString(16).toUpperCase().padStart(2, "0")}>`;
  }
}

/** Ids that are written as JSON at a time. */
const IDS_AT_A_TIME = 1024;

/** Ids of so many bytes are freed when they are used. Fewer may share their memory. */
const OLD_BYTES = 2 ** 20;

/** Yields a list as JSON. */
function* listed(ids: Uint32Array, one: (id: number) => string): Generator<string, void> {
  yield "[";
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME)
    yield `${at > 0 ? "," : ""}${Array.from(ids.subarray(at, at + IDS_AT_A_TIME), one).join()}`;
  yield "]";
}

const BYTE_CHARACTERS = byteCharacters();
