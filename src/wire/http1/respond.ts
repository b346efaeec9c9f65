/** How does a `Response` leave that a route made which knows nothing of this server? In one piece, or chunk by chunk. */
import type { ServedExchange } from "./exchange.ts";

/** A body up to this is put together, and has its length said. */
const JOINED_MOST = 4 * 2 ** 20;
const NOTHING = new Uint8Array();

/** Sends a longer body part by part, each a chunk, asked for when the client has room for it. */
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
