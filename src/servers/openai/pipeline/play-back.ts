/** Replays an answer that a proxy has recorded, with the same bytes and the same gaps. The engine takes no part in it. */

import type { Outcome } from "../../../engine/interface/types.ts";
import type { Backend } from "../../../kernel/backend.ts";
import { isStreamed, type Recording } from "../../../text/canned/fixtures/recording.ts";
import type { EventSink, SinkEvents } from "../../../wire/http/sink.ts";
import type { Context, Http } from "../front/http.ts";

interface PlaybackDeps {
  readonly http: Http;
  readonly backend: Pick<Backend, "nowUs" | "after">;
  readonly context: Context;
  /** Called once, when the answer has ended. */
  readonly ended: (outcome: Outcome) => void;
}

/** Answers with a recording. Its times count from `fromUs`, a time of the engine's clock. */
export function playBack(deps: PlaybackDeps, recording: Recording, fromUs: number): Response | Promise<Response> {
  return isStreamed(recording) ? playStream(deps, recording, fromUs) : playWhole(deps, recording, fromUs);
}

async function playWhole({ http, backend, context, ended }: PlaybackDeps, recording: Recording, fromUs: number) {
  const { status, headers, events } = recording;
  const [us, body] = events.at(-1) ?? [0, ""];
  await new Promise<void>((resolve) => void after(backend, fromUs + us, resolve));
  ended(status < 400 ? "stop" : "refused");
  return http.error(context, { status, body, headers, asItIs: true });
}

function playStream({ http, backend, context, ended }: PlaybackDeps, recording: Recording, fromUs: number): Response {
  const { events, status, headers, broken } = recording;
  let next = 0;
  let over = false;
  let cancel = () => {};
  const end = (outcome: Outcome): void => {
    over = true;
    cancel();
    ended(outcome);
  };
  const go = (): void => {
    while (!over && !sink.full && next < events.length) {
      const dueUs = fromUs + events[next]![0];
      if (backend.nowUs() < dueUs) {
        cancel = after(backend, dueUs, go);
        return;
      }
      sink.write(events[next++]![1]);
    }
    if (over || next < events.length) return;
    if (broken) sink.reset();
    else sink.end();
    end(broken ? "error" : "stop");
  };
  const owner: SinkEvents = { onDrain: go, onGone: () => over || end("abort") };
  const sink: EventSink = http.open(context, owner);
  const response = http.played(context, status, headers);
  go();
  return response;
}

function after({ nowUs, after }: PlaybackDeps["backend"], dueUs: number, act: () => void): () => void {
  const leftUs = dueUs - nowUs();
  if (leftUs > 0 && after !== undefined) return after(leftUs, act);
  queueMicrotask(act);
  return () => {};
}
