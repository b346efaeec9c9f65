/** Implements a minimal fourth server, which streams the tokens of an answer over HTTP and serves metrics. */

import { Finish } from "../../src/engine/interface/types.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import { onePort } from "../../src/kernel/one-port.ts";
import { plainGeneration } from "../../src/kernel/plain-generation.ts";
import type { Server } from "../../src/kernel/server.ts";
import { metricsRoutes } from "../../src/kernel/shared-routes.ts";
import { type RouteTable, routes } from "../../src/wire/http/routes.ts";
import type { Context } from "../../src/wire/http/sink.ts";

export const fourth: Server = { options: [], start: async (kernel) => onePort(kernel, routesOf) };

function routesOf(kernel: Kernel): RouteTable {
  const generate = { "POST /generate": (context: Context) => answer(kernel, context) };
  return { routes: [...metricsRoutes(kernel), ...routes(generate)] };
}

/** Answers `{"prompt": "…", "tokens": 9}` with an event per token and a last event with the finish reason. */
async function answer(kernel: Kernel, { request, front }: Context): Promise<Response> {
  const { backend, config, text, metrics } = kernel;
  const { encoder, vocabulary } = text.model;
  const { prompt, tokens } = (await request.json()) as { readonly prompt: string; readonly tokens: number };
  const promptIds = await encoder.encode([`${prompt}`], false);
  const most = config.engine.maxModelLen - promptIds.length;
  if (promptIds.length === 0 || !(tokens >= 1 && tokens <= most))
    return front.answer(request, 400, {}, `tokens: must be 1 to ${most}, after a prompt\n`);

  const decoder = new TextDecoder();
  const submission = backend.submit(plainGeneration(kernel, promptIds, Math.floor(tokens)), {
    streams: true,
    onTokens(ids, at, count, finish) {
      for (const id of ids.subarray(at, at + count)) {
        const piece = vocabulary.isSpecial(id) ? "" : decoder.decode(vocabulary.bytesOf(id), { stream: true });
        stream.write(`data: ${JSON.stringify({ id, text: piece })}\n\n`);
      }
      if (finish === null) return;
      const reason = finish === Finish.Length ? "length" : finish === Finish.Stop ? "stop" : "error";
      stream.write(`data: ${JSON.stringify({ finish: reason })}\n\n`);
      stream.end();
      metrics.accounting.settled(reason);
    },
  });
  if ("refused" in submission) return front.answer(request, 503, {}, `${submission.refused}\n`);

  metrics.accounting.opened();
  const onGone = () => {
    submission.cancel();
    metrics.accounting.settled("abort");
  };
  // Answers are short, so the unread part for a slow client may wait in the connection.
  const stream = front.open(request, { onDrain() {}, onGone }, metrics.accounting);
  return front.begin(request, 200, { "content-type": "text/event-stream" });
}
