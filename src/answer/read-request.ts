/** How does a body become a request, and may it come in? What needs no prompt's ids: size, JSON, fields, queue limits, orders. */

import type { Context } from "../http/sink.ts";
import type { Ordered, Ordering } from "../orders/orders.ts";
import { engineDead } from "../python/errors.ts";
import { inTurns, isLarge } from "../python/pieces.ts";
import type { ErrorAnswer } from "../python/request.ts";
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
  const reading = serving.admission.read(context);
  const { request: http } = context;
  if (reading instanceof Promise) return reading.then((body) => readBytes(serving, http, reader, body));
  return readBytes(serving, http, reader, reading);
}

function readBytes(
  serving: Serving,
  http: Request,
  reader: BodyReader,
  body: Uint8Array | ErrorAnswer,
): Received | Declined | Promise<Received | Declined> {
  if ("status" in body) return { error: body };
  const { backend } = serving.options;
  const arrivalUs = backend.nowUs();
  backend.consumed(body.length);
  const given: Parameters<BodyReader["read"]> = [body, http.headers.get("content-type"), serving.limits];
  const received = (read: ReturnType<BodyReader["read"]>): Received | Declined =>
    "error" in read
      ? read
      : { request: serving.orders.onto(http, read.request), form: read.form, http, body, arrivalUs };
  return isLarge(body) ? readLarge(serving, reader, given).then(received) : received(reader.read(...given));
}

/** Reads a large body in pieces with turns of the event loop between. Time to spare is waited for before it and behind it. */
async function readLarge(
  { options: { backend } }: Serving,
  reader: BodyReader,
  given: Parameters<BodyReader["read"]>,
): Promise<ReturnType<BodyReader["read"]>> {
  await backend.spare();
  const read = reader.pieces ? await inTurns(reader.pieces(...given), backend) : reader.read(...given);
  // The prompt goes to the encoder's thread next, which takes the processor first where there is one for both.
  await backend.spare();
  return read;
}

export function admit(
  { options, queue, admission, orders }: Serving,
  { request, http, body }: Received,
): Admitted | (Declined & { readonly ordering?: Ordering }) {
  if (!options.alive()) return { error: engineDead };
  const prompts = request.kind === "chat" ? (request.conversations?.length ?? 1) : request.prompts.length;
  const choices = prompts * request.n;
  const full = queue.refuses(choices) ?? (request.stream ? admission.refusesStream() : null);
  if (full !== null) return { error: full };
  const ordering = orders.of(http, request, body);
  const { ordered, error } = ordering;
  return error === undefined ? { ordered, choices, ordering } : { error, ordering };
}
