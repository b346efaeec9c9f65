/**
 * A correct client, for comparison with clients under test. It follows the standards, times out, and retries where that is
 * safe.
 */
import net from "node:net";
import type { Timer } from "../../wire/http/deadlines.ts";
import type { StressClient } from "./run.ts";
import { clientReport } from "./seen.ts";
import { WireReader } from "./wire-reader.ts";

/** Statuses after which a request may be sent again. */
const PASSING = [408, 409, 429, 500, 502, 503, 504, 529];
/** Longest wait before a retry. It gives up if the server asks for more. */
const WAIT_MOST_S = 5;
const USUAL_WAIT_S = 0.1;

export function referenceClient(timer: Required<Timer>, timeoutMs: number, retries: number): StressClient {
  const pause = (us: number) => new Promise<void>((resolve) => void timer.after(us, resolve));
  return async ({ url }) => {
    for (let attempt = 0; ; attempt++) {
      const reader = await once(new URL(`${url}/chat/completions`), timer, timeoutMs);
      const { any, status, failure, events } = reader;
      const again = (!any && failure !== null) || (failure !== null && PASSING.includes(status));
      const waitS = again && attempt < retries ? waitOf(reader) : null;
      if (waitS === null) {
        const { text, finish, usage, reasoning } = events;
        return clientReport({ text, finish, usage, reasoning, error: failure, own: failure === null ? null : true });
      }
      await pause(waitS * 1e6);
    }
  };
}

/** Returns the seconds until the retry. Null if the server asks for a longer wait than accepted. */
function waitOf({ headers }: WireReader): number | null {
  const [after, ms] = [headers.get("retry-after"), headers.get("retry-after-ms")];
  if (ms !== undefined) return Number(ms) / 1000;
  if (after === undefined) return USUAL_WAIT_S;
  const date = headers.get("date");
  const seconds = /^-?\d+$/.test(after) ? Number(after) : (Date.parse(after) - Date.parse(date ?? after)) / 1000;
  return seconds > WAIT_MOST_S ? null : Math.max(USUAL_WAIT_S, seconds);
}

function once({ hostname, port, pathname }: URL, timer: Required<Timer>, timeoutMs: number): Promise<WireReader> {
  const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "Say it" }] });
  const lines = [
    `POST ${pathname} HTTP/1.1`,
    `host: ${hostname}:${port}`,
    "content-type: application/json",
    "accept-encoding: gzip, br",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  const reader = new WireReader();
  const { promise, resolve } = Promise.withResolvers<WireReader>();
  const socket = net.connect({ host: hostname, port: Number(port) });
  let takeBack = () => {};
  const over = () => {
    takeBack();
    socket.destroy();
    resolve(reader);
  };
  const wait = () => {
    takeBack();
    takeBack = timer.after(timeoutMs * 1000, () => {
      reader.error ??= "no byte came before the timeout";
      over();
    });
  };
  socket.on("connect", () => socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`));
  socket.on("data", (bytes: Buffer) => {
    reader.push(bytes);
    if (reader.complete || reader.error !== null) over();
    else wait();
  });
  const ended = (how: "fin" | "rst") => () => {
    reader.ended(how);
    over();
  };
  socket.on("end", ended("fin"));
  socket.on("error", ended("rst"));
  socket.on("close", ended("fin"));
  wait();
  return promise;
}
