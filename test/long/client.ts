/**
 * Sends the bytes of one input and collects the answers. Each input has a separate connection. A client that disconnects does
 * so after its last write.
 */
import net from "node:net";
import type { Input } from "./inputs.ts";

export interface Answer {
  readonly status: number;
  readonly body: string;
}

export interface Outcome {
  /** Answers in order. The last may be incomplete. */
  readonly answers: readonly Answer[];
  /** Received text, one character per byte, at most KEPT_BYTES. */
  readonly text: string;
  /** True if the server closed the connection. */
  readonly closed: boolean;
  /** True if the connection was refused. */
  readonly refused: boolean;
}

const KEPT_BYTES = 200_000;
/** Timeouts of a client that waits, in milliseconds: for a silence, and for the whole exchange. */
export interface Patience {
  readonly silenceMs: number;
  readonly allMs: number;
}
export const HASTY: Patience = { silenceMs: 150, allMs: 1500 };
export const PATIENT: Patience = { silenceMs: 20_000, allMs: 20_000 };

export function send(port: number, input: Input, { silenceMs, allMs }: Patience): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  let text = "";
  let closed = false;
  let refused = true;
  let done = false;
  let silence: Timer | undefined;
  const finish = () => {
    if (done) return;
    done = true;
    clearTimeout(silence);
    clearTimeout(most);
    // A reset avoids TIME_WAIT. Thousands of connections a second would otherwise use up the ports.
    socket.resetAndDestroy();
    resolve({ answers: answersIn(text), text, closed, refused });
  };
  const most = setTimeout(finish, allMs);
  const quiet = () => {
    clearTimeout(silence);
    silence = setTimeout(finish, silenceMs);
  };
  socket.on("data", (data) => {
    if (text.length < KEPT_BYTES) text += data.toString("latin1");
    quiet();
  });
  const ended = () => {
    closed = true;
    finish();
  };
  socket.on("end", ended);
  socket.on("close", ended);
  socket.on("error", ended);
  socket.on("connect", async () => {
    refused = false;
    let from = 0;
    for (const to of [...input.cuts, input.bytes.length]) {
      if (done) return;
      socket.write(input.bytes.subarray(from, to));
      from = to;
      if (from < input.bytes.length) await Bun.sleep(2);
    }
    if (input.leave === "wait") return quiet();
    if (input.leave === "half") {
      socket.end();
      return quiet();
    }
    if (input.leave === "fin") socket.end(() => socket.destroy());
    finish();
  });
  return promise;
}

/** Returns the consecutive answers in the text of a connection. The last may be incomplete. */
export function answersIn(text: string): Answer[] {
  const answers: Answer[] = [];
  for (let at = 0; at < text.length; ) {
    const head = /^HTTP\/1\.[01] (\d{3})[^\r\n]*\r\n/.exec(text.slice(at, at + 200));
    const end = text.indexOf("\r\n\r\n", at);
    if (head === null || end === -1) {
      if (text.slice(at, at + 9) !== "HTTP/1.1 ".slice(0, text.length - at))
        answers.push({ status: 0, body: text.slice(at) });
      break;
    }
    const status = Number(head[1]);
    const fields = text.slice(at, end).toLowerCase();
    const length = /\r\ncontent-length: *(\d+)/.exec(fields)?.[1];
    at = end + 4;
    if (status < 200) continue;
    if (text.startsWith("HTTP/1.", at)) {
      // Answer to a HEAD request: its length describes a body that does not follow.
      answers.push({ status, body: "" });
    } else if (length !== undefined) {
      answers.push({ status, body: text.slice(at, at + Number(length)) });
      at += Number(length);
    } else if (/\r\ntransfer-encoding: *chunked/.test(fields)) {
      let body = "";
      for (;;) {
        const line = text.indexOf("\r\n", at);
        const size = Number.parseInt(text.slice(at, line), 16);
        if (line === -1 || Number.isNaN(size)) {
          at = text.length;
          break;
        }
        body += text.slice(line + 2, line + 2 + size);
        at = line + 4 + size;
        if (size === 0) break;
      }
      answers.push({ status, body });
    } else {
      // Answer to HTTP/1.0: the body lasts until the connection closes.
      answers.push({ status, body: text.slice(at) });
      break;
    }
  }
  return answers;
}
