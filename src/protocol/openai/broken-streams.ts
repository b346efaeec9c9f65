/** How does a stream end that has failed before its first token? Its head was out, or is as if it had been. */
import { chatStreamError, completionStreamError } from "../errors.ts";
import type { About, Form } from "../form.ts";
import type { ChatRequest, CompletionRequest, ErrorAnswer } from "../request.ts";
import { DONE } from "./chunks.ts";
import type { Backend } from "./front.ts";
import type { Context, Http } from "./http.ts";

/** Of a stream that is over when it begins. */
const NOBODY = { onDrain() {}, onGone() {} };

/** The head is out when vLLM finds this: status 200, the error as the only frame. */
export function brokenStream(
  http: Http,
  context: Context,
  { kind }: Pick<ChatRequest | CompletionRequest, "kind">,
  error: ErrorAnswer,
): Response {
  const sink = http.open(context, NOBODY);
  sink.write((kind === "chat" ? chatStreamError : completionStreamError)(error));
  sink.write(DONE);
  sink.end();
  return http.stream(context);
}

/** The same in another dialect's form, which may have it broken off behind its head: in a turn after this one. */
export function brokenForm(
  http: Http,
  context: Context,
  form: Form,
  about: About,
  error: ErrorAnswer,
  later: Backend["after"],
): Response {
  const sink = http.open(context, NOBODY);
  const first = form.accepted(about);
  const last = form.failed(error);
  for (const event of [...first, ...(last ?? [])]) sink.write(event);
  if (last !== null) sink.end();
  const response = http.stream(context);
  if (last === null) (later ?? atOnce)(0, () => sink.reset());
  return response;
}

const atOnce = (_: number, act: () => void) => queueMicrotask(act);
