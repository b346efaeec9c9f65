/** Sends a web `Response` of a route: in one piece if it is short, otherwise in chunks as the client reads. */
import type { ServedExchange } from "./exchange.ts";

/** Bodies up to this size are sent in one piece with a Content-Length. */
const JOINED_MOST = 4 * 2 ** 20;
const NOTHING = new Uint8Array();

/** Sends the response. Reads a longer body part by part, when the client has room for the next chunk. */
export async function respond(exchange: ServedExchange, response: Response): Promise<void> {
  if (exchange.answered) return response.body?.cancel();
  const headers = Object.fromEntries(response.headers);
  if (response.body === null) {
    exchange.answer(response.status, headers, null);
    return;
  }
  const reader = response.body.getReader();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  let next = await reader.read();
  for (; !next.done && bytes < JOINED_MOST; next = await reader.read()) {
    parts.push(next.value);
    bytes += next.value.length;
  }
  if (next.done) {
    exchange.answer(response.status, headers, Buffer.concat(parts));
    return;
  }
  let gone = false;
  let wake = () => {};
  const owner = {
    onDrain: () => wake(),
    onGone: () => {
      gone = true;
      wake();
    },
  };
  const stream = exchange.open(owner, null);
  exchange.begin(response.status, headers);
  for (const part of parts) stream.writeParts(part, NOTHING, NOTHING);
  try {
    for (; !next.done; next = await reader.read()) {
      if (stream.full && !gone) await new Promise<void>((resolve) => (wake = resolve));
      if (gone) return reader.cancel();
      stream.writeParts(next.value, NOTHING, NOTHING);
    }
  } catch (reason) {
    stream.reset();
    throw reason;
  }
  stream.end();
}
