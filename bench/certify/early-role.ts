/**
 * Runs a proxy that sends the chunk with the role at once, before the server answers, and drops the server's role chunk. Some
 * servers send the role early, while vLLM and ours send it with the first token. Started by run.ts as
 * `early-role.ts SERVER-PORT --port N`. The proxy copies bytes, so that each write of the server is one write of the proxy. It
 * supports only clients that send a request's head in one piece and do not pipeline requests.
 */
import { randomUUID } from "node:crypto";
import { connect, createServer, type Socket } from "node:net";
import { number } from "../lib/bench.ts";

const CHAT = "POST /v1/chat/completions ";
const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const END = "0\r\n\r\n";
const target = Number(process.argv[2]);

createServer({ noDelay: true }, join).listen(number("--port", 0), "127.0.0.1");

/** Connects a client with the server. Text is decoded as latin1, a character per byte. */
function join(client: Socket): void {
  const server = connect({ port: target, host: "127.0.0.1", noDelay: true });
  for (const socket of [client, server]) socket.setEncoding("latin1");
  let answering = false;
  /** Bytes of the answer's head and first chunk so far. Null if both are complete and dropped. */
  let begun: string | null = null;

  client.on("data", (text: string) => {
    if (answering || !text.startsWith(CHAT)) return void server.write(text, "latin1");
    const head = text.slice(0, text.indexOf("\r\n\r\n"));
    // The answer's id follows from the request's, so it is known before the answer.
    const sentId = /\r\nx-request-id: *([^\r]+)/i.exec(head)?.[1];
    const id = sentId ?? randomUUID();
    const firstLine = text.indexOf("\r\n") + 2;
    const named = `${text.slice(0, firstLine)}x-request-id: ${id}\r\n${text.slice(firstLine)}`;
    server.write(sentId === undefined ? named : text, "latin1");
    answering = true;
    begun = "";
    client.write(HEAD + chunk(role(`chatcmpl-${id}`)));
  });

  server.on("data", (text: string) => {
    let rest = text;
    if (begun !== null) {
      begun += text;
      const after = withoutFirstEvent(begun);
      if (after === null) return;
      begun = null;
      rest = after;
    }
    if (answering && rest.endsWith(END)) answering = false;
    client.write(rest, "latin1");
  });

  for (const [socket, other] of [
    [client, server],
    [server, client],
  ] as const) {
    socket.on("error", () => other.destroy());
    socket.on("close", () => other.destroy());
  }
}

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

function role(id: string): string {
  const choice = { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
  const event = { id, object: "chat.completion.chunk", created: 0, model: "m", choices: [choice] };
  return `data: ${JSON.stringify(event)}\n\n`;
}

/** Returns the text after the head and the first event of a chunked answer. Null if the head or the event is incomplete. */
function withoutFirstEvent(answer: string): string | null {
  const headEnd = answer.indexOf("\r\n\r\n");
  if (headEnd < 0) return null;
  if (!answer.startsWith("HTTP/1.1 200 ")) throw new Error(`the server answered ${answer.slice(0, headEnd)}`);
  const sizeEnd = answer.indexOf("\r\n", headEnd + 4);
  if (sizeEnd < 0) return null;
  const size = Number.parseInt(answer.slice(headEnd + 4, sizeEnd), 16);
  const [from, to] = [sizeEnd + 2, sizeEnd + 2 + size];
  if (answer.length < to + 2) return null;
  const payload = answer.slice(from, to);
  const more = payload.slice(payload.indexOf("\n\n") + 2);
  return (more === "" ? "" : chunk(more)) + answer.slice(to + 2);
}
