/** Sends a stored stream to a client, from any of its events on, as fast as the client reads. */

import type { Context } from "../../../wire/http/sink.ts";
import type { Http } from "../front/http.ts";
import type { StoredEvents } from "./form.ts";

/** Answers with the events that are stored and those that will be added. `from`: index of the first event. */
export function follow(http: Http, context: Context, log: StoredEvents, from: number): Response {
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
