/** How does somebody read a stream that is kept? From any of its events, as fast as the client takes them. */

import type { Context } from "../../../wire/http/sink.ts";
import type { Http } from "../front/http.ts";
import type { Log } from "./form.ts";

/** What is there, and what comes. */
export function follow(http: Http, context: Context, log: Log, from: number): Response {
  let next = from;
  const send = () => {
    while (next < log.events.length && !sink.full) sink.write(log.events[next++]!);
    if (!log.ended || next < log.events.length) return;
    leave();
    sink.end();
  };
  const sink = http.open(context, { onDrain: send, onGone: () => leave() });
  const leave = log.follow(send);
  send();
  return http.stream(context);
}
