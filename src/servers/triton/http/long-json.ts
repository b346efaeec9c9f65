/** Sends JSON answers that may be long, in pieces and parts if they are. */

import { andThen } from "../../../base/maybe-promise.ts";
import { atOnceOrInTurns, type Pieces } from "../../../base/pieces.ts";
import { JsonParts } from "../../openai/front/send-parts.ts";
import { type HandlerAnswer, type HttpCall, JSON_TYPE, jsonAnswer, LATER } from "./call.ts";

/** Smallest size of a yielded text, except the last. */
const CHARACTERS = 4096;

/**
 * Yields the result of `JSON.stringify` in parts, for a list that can be read once, or for an object that contains such lists.
 */
export function* jsonTexts(value: object): Generator<string, void> {
  if (Symbol.iterator in value) {
    yield* listTexts(value as Iterable<unknown>);
    return;
  }
  let text = "{";
  for (const [at, [name, member]] of Object.entries(value).entries()) {
    text += `${at === 0 ? "" : ","}${JSON.stringify(name)}:`;
    if (typeof member !== "object" || member === null || !(Symbol.iterator in member)) {
      text += JSON.stringify(member);
      continue;
    }
    yield text;
    text = "";
    yield* listTexts(member as Iterable<unknown>);
  }
  yield `${text}}`;
}

function* listTexts(list: Iterable<unknown>): Generator<string, void> {
  let text = "[";
  let mark = "";
  for (const one of list) {
    text += mark + JSON.stringify(one);
    mark = ",";
    if (text.length < CHARACTERS) continue;
    yield text;
    text = "";
  }
  yield `${text}]`;
}

/** Sends the texts as one JSON answer. A short answer is sent synchronously. */
export function toldJson(call: HttpCall, texts: Iterable<string>): HandlerAnswer | Promise<HandlerAnswer> {
  return andThen(atOnceOrInTurns(gathered(texts), call.around.turns), sent, call);
}

function* gathered(texts: Iterable<string>): Pieces<JsonParts> {
  const parts = new JsonParts();
  for (const text of texts) {
    parts.add(text);
    yield;
  }
  return parts.end();
}

function sent({ parts, bytes }: JsonParts, call: HttpCall): HandlerAnswer {
  if (parts.length <= 1) return jsonAnswer(parts[0] ?? "");
  call.answerParts({ status: 200, headers: JSON_TYPE }, parts, bytes);
  return LATER;
}
