/** How does a stream end that has failed before its first token? The head is out when vLLM finds this: status 200, then the error. */
import type { ErrorAnswer } from "../request.ts";
import type { AnswerContext } from "./answer-context.ts";
import type { Backend } from "./front.ts";
import type { Context, Http } from "./http.ts";

/** Owner of a stream that is over when it begins. */
const NOBODY = { onDrain() {}, onGone() {} };

/** A form that says nothing has the stream broken off behind its head: in a turn after this one. */
export function brokenStream(
  http: Http,
  context: Context,
  answer: AnswerContext,
  error: ErrorAnswer,
  later: Backend["after"],
): Response {
  const sink = http.open(context, NOBODY);
  const first = answer.form.accepted(answer);
  const last = answer.form.failed(error);
  for (const event of [...first, ...(last ?? [])]) sink.write(event);
  if (last !== null) sink.end();
  const response = http.stream(context, sink);
  if (last === null) (later ?? atOnce)(0, () => sink.reset());
  return response;
}

const atOnce = (_: number, act: () => void) => queueMicrotask(act);
