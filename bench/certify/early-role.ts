/**
 * Runs a proxy that sends the chunk with the role at once, before the server answers, and drops the server's role chunk. Some
 * servers send the role early, while vLLM and ours send it with the first token. Started by run.ts as
 * `early-role.ts SERVER-PORT --port N`. Each part that arrives from the server is one write of the proxy.
 */
import { randomUUID } from "node:crypto";
import { number } from "../lib/bench.ts";
import { CHAT_PATH } from "../lib/client.ts";

const target = `http://127.0.0.1:${process.argv[2]}`;
const EVENT_END = "\n\n";

/** Returns the answer's events, of which the first is sent at once instead of with the server's first token. */
function events(id: string, answering: Promise<Response>): ReadableStream {
  const choice = { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
  const role = { id, object: "chat.completion.chunk", created: 0, model: "m", choices: [choice] };
  return new ReadableStream({
    type: "direct",
    async pull(out: ReadableStreamDirectController) {
      const send = (bytes: string | Uint8Array) => {
        out.write(bytes);
        out.flush();
      };
      send(`data: ${JSON.stringify(role)}${EVENT_END}`);
      const answer = await answering;
      if (answer.status !== 200) throw new Error(`the server answered HTTP ${answer.status}`);
      let begun: Buffer | null = Buffer.alloc(0);
      for await (const part of answer.body!) {
        if (begun === null) {
          send(part);
          continue;
        }
        begun = Buffer.concat([begun, part]);
        const end = begun.indexOf(EVENT_END);
        if (end < 0) continue;
        if (begun.length > end + EVENT_END.length) send(begun.subarray(end + EVENT_END.length));
        begun = null;
      }
      out.end();
    },
  } as unknown as Bun.DirectUnderlyingSource);
}

Bun.serve({
  hostname: "127.0.0.1",
  port: number("--port", 0),
  idleTimeout: 0,
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const { method, signal } = request;
    const headers = new Headers(request.headers);
    // The answer's id follows from the request's, so it is known before the answer.
    const id = headers.get("x-request-id") ?? randomUUID();
    headers.set("x-request-id", id);
    const body = method === "GET" ? null : await request.bytes();
    const answering = fetch(`${target}${pathname}${search}`, { method, headers, body, signal });
    if (method === "GET" || pathname !== CHAT_PATH) return answering;
    const type = { "content-type": "text/event-stream; charset=utf-8" };
    return new Response(events(`chatcmpl-${id}`, answering), { headers: type });
  },
});
