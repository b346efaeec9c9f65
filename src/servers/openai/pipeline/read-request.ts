/** Reads a body into a request and decides whether to admit it. Makes the checks that need no token ids of prompts. */

import { thenLater } from "../../../base/maybe-promise.ts";
import { inTurns, isLarge } from "../../../base/pieces.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Context } from "../../../wire/http/sink.ts";
import { plainPieces } from "../../pydantic/json.ts";
import type { BodyText } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { BodyReading } from "../front/reading/thread.ts";
import type { AnswerOrders, OrderedAnswer } from "../overrides/orders.ts";
import { engineDead } from "../request/errors.ts";
import { toolShapes } from "../request/output-options.ts";
import type { ChatRequest, GenerationRequest } from "../request/request.ts";
import type { BodyReader } from "./form.ts";
import type { DeclinedRequest, ReceivedRequest, Serving } from "./serving.ts";

/** The result of admitting a request. */
export interface AdmittedRequest {
  /** The answer that a test ordered. null: none. */
  readonly ordered: OrderedAnswer | null;
  /** Number of choices of all its prompts. */
  readonly choices: number;
  readonly ordering: AnswerOrders;
}

/** Reads a request. Returns a promise unless the body has arrived and is short. Rejects if the client disconnects. */
export function readRequest(
  serving: Serving,
  context: Context,
  reader: BodyReader,
): ReceivedRequest | DeclinedRequest | Promise<ReceivedRequest | DeclinedRequest> {
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
): ReceivedRequest | DeclinedRequest | Promise<ReceivedRequest | DeclinedRequest> {
  if ("status" in body) return { error: body };
  const { backend } = serving.kernel;
  const arrivalUs = backend.nowUs();
  if (body instanceof BodyReading) return readElsewhere(serving, reader, { http, reading: body, arrivalUs });
  backend.consumed(body.length);
  const source = { http, body, bytes: body.length, arrivalUs };
  const args: ReaderArguments = [body, http.headers.get("content-type"), serving.limits];
  if (!isLarge(body)) return joinSource(serving, source, reader.read(...args));
  return readLarge(serving, reader, args).then((read) => joinSource(serving, source, read));
}

type ReaderArguments = Parameters<BodyReader["read"]>;
/** The request that was read, without the result of reading it. */
type RequestSource = Pick<ReceivedRequest, "http" | "body" | "bytes" | "arrivalUs">;

/** Joins a request with its source and adds the orders in its headers. */
function joinSource(
  { orders, kernel }: Serving,
  source: RequestSource,
  read: ReturnType<BodyReader["read"]>,
): ReceivedRequest | DeclinedRequest {
  if ("error" in read) return read;
  if (read.request.stream) kernel.backend.read?.();
  return { ...source, request: orders.onto(source.http, read.request), form: read.form };
}

/** Awaits the reading thread's request, or reads the text that it returns in pieces. */
async function readElsewhere(
  serving: Serving,
  reader: BodyReader,
  {
    http,
    reading,
    arrivalUs,
  }: { readonly http: HttpRequest; readonly reading: BodyReading; readonly arrivalUs: number },
): Promise<ReceivedRequest | DeclinedRequest> {
  const answer = await reading.answer();
  if ("error" in answer) return answer;
  if ("text" in answer) {
    serving.kernel.backend.consumed(reading.bytes);
    const args: ReaderArguments = [answer.text, http.headers.get("content-type"), serving.limits];
    const source = { http, body: answer.text, bytes: reading.bytes, arrivalUs };
    return joinSource(serving, source, await readLarge(serving, reader, args));
  }
  if (!("read" in answer)) throw new Error("the reading thread returned neither a request nor a text");
  const { request: lean, prompts, tools, repeated } = answer.read;
  const request: GenerationRequest =
    tools === null || lean.kind !== "chat" ? lean : { ...lean, tools: await toolsIn(tools, serving.kernel.backend) };
  const bytes = prompts.reduce((sum, prompt) => sum + ("text" in prompt ? prompt.text.length : prompt.byteLength), 0);
  serving.kernel.backend.consumed(bytes);
  const source = { http, body: READ_ELSEWHERE, bytes, arrivalUs };
  const read = joinSource(serving, source, { request, form: reader.formOf!(request, repeated) });
  return "error" in read ? read : { ...read, prompts };
}

/** Parses the JSON of tools in pieces. */
async function toolsIn(text: string, backend: Serving["kernel"]["backend"]): Promise<ChatRequest["tools"]> {
  const tools = (await inTurns(plainPieces(text), backend)) as unknown[];
  await inTurns(toolShapes(tools), backend);
  return tools;
}

/** The body of a request that the reading thread has read. */
const READ_ELSEWHERE: BodyText = { plain: null, python: null, empty: true };

/** Reads a large body in pieces with turns of the event loop between them. Waits for idle time before and afterwards. */
async function readLarge(
  { kernel: { backend } }: Serving,
  reader: BodyReader,
  args: ReaderArguments,
): Promise<ReturnType<BodyReader["read"]>> {
  await backend.spare();
  const read = reader.pieces ? await inTurns(reader.pieces(...args), backend) : reader.read(...args);
  // The encoder's thread works next. With a single processor it would delay the main thread's steps.
  await backend.spare();
  return read;
}

/** The admission of a request, or its refusal, before the ids of its prompts are known. */
export type Decision = AdmittedRequest | (DeclinedRequest & { readonly ordering?: AnswerOrders });

/** Decides whether to admit a request: by the engine's state, the queue's limits and the orders of tests. */
export function admit(
  { kernel, queue, admission, orders }: Serving,
  { request, http, body }: ReceivedRequest,
): Decision | Promise<Decision> {
  if (!kernel.engines.alive.get()) return { error: engineDead };
  const prompts = request.kind === "chat" ? (request.conversations?.length ?? 1) : request.prompts.length;
  const choices = prompts * request.n;
  const full = queue.refuses(choices) ?? (request.stream ? admission.refusesStream() : null);
  if (full !== null) return { error: full };
  const ordering = orders.of(http, request, body);
  return ordering instanceof Promise ? thenLater(ordering, decide, choices) : decide(ordering, choices);
}

function decide(ordering: AnswerOrders, choices: number): Decision {
  const { ordered, error } = ordering;
  return error === undefined ? { ordered, choices, ordering } : { error, ordering };
}
