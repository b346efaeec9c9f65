/** How does an answer of megabytes reach its client? Measured part by part, then sent part by part, as it is taken. */
import type { Backend } from "../front/front.ts";
import type { Context, Http } from "../front/http.ts";
import { inTurns, turn } from "../python/pieces.ts";
import type { LongBody } from "./long-body.ts";

/** null: the client left before its head was sent. */
export async function sendLong(
  http: Http,
  backend: Backend,
  context: Context,
  body: LongBody,
  headers: Readonly<Record<string, string>> | undefined,
): Promise<Response | null> {
  await inTurns(body.measure(), backend);
  if (context.request.signal.aborted) {
    body.drop();
    return null;
  }
  const gate = new Gate();
  const { sink, response } = http.long(context, gate, body.bytes, headers);
  void pump(body, sink, gate, backend).finally(() => body.drop());
  return response;
}

async function pump(
  body: LongBody,
  sink: { write(part: Uint8Array): boolean; readonly full: boolean },
  gate: Gate,
  backend: Backend,
): Promise<void> {
  for (const part of body.parts()) {
    if (sink.full) await gate.opens();
    if (gate.gone) return;
    sink.write(part);
    backend.consumed(part.length);
    await turn(backend);
  }
}

/** Waits for a client that does not keep up. */
class Gate {
  gone = false;
  #open: (() => void) | null = null;

  opens(): Promise<void> {
    return new Promise((open) => {
      this.#open = open;
    });
  }

  onDrain(): void {
    this.#open?.();
  }

  onGone(): void {
    this.gone = true;
    this.#open?.();
  }
}
