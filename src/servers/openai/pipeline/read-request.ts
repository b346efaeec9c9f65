/** How does a body become a request, and may it come in? What needs no prompt's ids: size, JSON, fields, queue limits, orders. */

import { thenLater } from "../../../base/maybe-promise.ts";
import { inTurns, isLarge } from "../../../base/pieces.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Context } from "../../../wire/http/sink.ts";
import { plainPieces } from "../../pydantic/json.ts";
import type { BodyText } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { BodyReading } from "../front/reading/thread.ts";
import type { Ordered, Ordering } from "../overrides/orders.ts";
import { engineDead } from "../request/errors.ts";
import { toolShapes } from "../request/output-options.ts";
import type { ChatRequest, CompletionRequest } from "../request/request.ts";
import type { BodyReader } from "./form.ts";
import type { Declined, Received, Serving } from "./serving.ts";

/** A request that may come in. */
export interface Admitted {
  /** What its answer was ordered to be; null: nothing. */
  readonly ordered: Ordered | null;
  /** Choices of all its prompts. */
  readonly choices: number;
  readonly ordering: Ordering;
}

/** At once where the body is there and short. Rejected when the client leaves. */
export function readRequest(
  serving: Serving,
  context: Context,
  reader: BodyReader,
): Received | Declined | Promise<Received | Declined> {
  const { admission, thread, limits, kernel } = serving;
  const { config, text } = kernel;
  const { request: http } = context;
  // The reading thread returns only a part of a body. Images, conditions of fixtures, and schemas in prompts need all of it.
  const isWhole = limits.takesImages || text.canned.fixtures !== undefined || config.text.promptedJson === true;
  const kind = isWhole ? "text" : (reader.thread ?? "text");
  const begin = () => thread?.begin({ kind, contentType: http.headers.get("content-type"), limits }) ?? null;
  const reading = admission.read(context, begin);
  return reading instanceof Promise
    ? thenLater(reading, readBody, serving, http, reader)
    : readBody(reading, serving, http, reader);
}

function readBody(
  body: Uint8Array | ErrorAnswer | BodyReading,
  serving: Serving,
  http: HttpRequest,
  reader: BodyReader,
): Received | Declined | Promise<Received | Declined> {
  if ("status" in body) return { error: body };
  const { backend } = serving.kernel;
  const arrivalUs = backend.nowUs();
  if (body instanceof BodyReading) return readElsewhere(serving, reader, { http, reading: body, arrivalUs });
  backend.consumed(body.length);
  const coming = { http, body, bytes: body.length, arrivalUs };
  const given: Given = [body, http.headers.get("content-type"), serving.limits];
  if (!isLarge(body)) return received(serving, coming, reader.read(...given));
  return readLarge(serving, reader, given).then((read) => received(serving, coming, read));
}

type Given = Parameters<BodyReader["read"]>;
type Coming = Pick<Received, "http" | "body" | "bytes" | "arrivalUs">;

function received(
  { orders, kernel }: Serving,
  coming: Coming,
  read: ReturnType<BodyReader["read"]>,
): Received | Declined {
  if ("error" in read) return read;
  if (read.request.stream) kernel.backend.read?.();
  return { ...coming, request: orders.onto(coming.http, read.request), form: read.form };
}

/** In the reading thread, or in pieces here, of the text that it made. */
async function readElsewhere(
  serving: Serving,
  reader: BodyReader,
  {
    http,
    reading,
    arrivalUs,
  }: { readonly http: HttpRequest; readonly reading: BodyReading; readonly arrivalUs: number },
): Promise<Received | Declined> {
  const answer = await reading.answer();
  if ("error" in answer) return answer;
  if ("text" in answer) {
    serving.kernel.backend.consumed(reading.bytes);
    const given: Given = [answer.text, http.headers.get("content-type"), serving.limits];
    const coming = { http, body: answer.text, bytes: reading.bytes, arrivalUs };
    return received(serving, coming, await readLarge(serving, reader, given));
  }
  if (!("read" in answer)) throw new Error("the reading thread has read something else");
  const { request: lean, prompts, tools, repeated } = answer.read;
  const request: ChatRequest | CompletionRequest =
    tools === null || lean.kind !== "chat" ? lean : { ...lean, tools: await toolsIn(tools, serving.kernel.backend) };
  const bytes = prompts.reduce((sum, one) => sum + ("text" in one ? one.text.length : one.byteLength), 0);
  serving.kernel.backend.consumed(bytes);
  const coming = { http, body: NOTHING_LEFT, bytes, arrivalUs };
  const read = received(serving, coming, { request, form: reader.formOf!(request, repeated) });
  return "error" in read ? read : { ...read, prompts };
}

async function toolsIn(text: string, backend: Serving["kernel"]["backend"]): Promise<ChatRequest["tools"]> {
  const tools = (await inTurns(plainPieces(text), backend)) as unknown[];
  await inTurns(toolShapes(tools), backend);
  return tools;
}

/** Stands for a body that the reading thread has read. */
const NOTHING_LEFT: BodyText = { plain: null, python: null, empty: true };

/** Reads a large body in pieces with turns of the event loop between. Time to spare is waited for before it and behind it. */
async function readLarge(
  { kernel: { backend } }: Serving,
  reader: BodyReader,
  given: Given,
): Promise<ReturnType<BodyReader["read"]>> {
  await backend.spare();
  const read = reader.pieces ? await inTurns(reader.pieces(...given), backend) : reader.read(...given);
  // The prompt goes to the encoder's thread next, which takes the processor first where there is one for both.
  await backend.spare();
  return read;
}

/** What is known before the prompt's ids are: it may come in, or its refusal. */
export type Decision = Admitted | (Declined & { readonly ordering?: Ordering });

export function admit(
  { kernel, queue, admission, orders }: Serving,
  { request, http, body }: Received,
): Decision | Promise<Decision> {
  if (!kernel.engines.alive.get()) return { error: engineDead };
  const prompts = request.kind === "chat" ? (request.conversations?.length ?? 1) : request.prompts.length;
  const choices = prompts * request.n;
  const full = queue.refuses(choices) ?? (request.stream ? admission.refusesStream() : null);
  if (full !== null) return { error: full };
  const ordering = orders.of(http, request, body);
  return ordering instanceof Promise ? thenLater(ordering, admitted, choices) : admitted(ordering, choices);
}

function admitted(ordering: Ordering, choices: number): Decision {
  const { ordered, error } = ordering;
  return error === undefined ? { ordered, choices, ordering } : { error, ordering };
}
