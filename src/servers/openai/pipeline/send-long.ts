/** Sends an answer of megabytes: measures its body in parts, sends the head with the length, then sends the parts. */

import { inTurns } from "../../../base/pieces.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { Context, Http } from "../front/http.ts";
import { DrainGate, sendParts } from "../front/send-parts.ts";
import type { LongBody } from "./long-body.ts";

/** Resolves once the head was sent, or with null if the client disconnected before. The parts follow in the background. */
export async function sendLong(
  http: Http,
  backend: Backend,
  context: Context,
  body: LongBody,
  headers: Readonly<Record<string, string>> | undefined,
): Promise<Response | null> {
  await inTurns(body.measure(backend.consumed), backend);
  if (context.request.signal.aborted) {
    body.drop();
    return null;
  }
  const gate = new DrainGate();
  const { sink, response } = http.long(context, gate, body.bytes, headers);
  void sendParts(body.parts(), sink, gate, backend).finally(() => body.drop());
  return response;
}
