/** Brings the messages of a publisher to a checker, without sockets: joins late, reconnects, replays. */
import { decodeKvEvents, KvEventsError } from "../../../src/kv-events/decode.ts";
import { KvChecker, type KvCheckOptions, type KvReport } from "../../../src/tools/kv-check/checker.ts";
import type { SentMessage } from "./block-pool.ts";

export interface ChannelOptions extends KvCheckOptions {
  /** Messages before we join. Default: 0. */
  readonly joinAt?: number;
  /** Messages at which the connection is lost for `away` messages. Default: never. */
  readonly leaveAt?: number;
  readonly away?: number;
  /** Messages that a replay has at most. Default: there is no replay. */
  readonly buffer?: number;
  /** Messages that arrive between a request and its replay. Default: 0. */
  readonly replayAfter?: number;
}

/** Returns the time of a message in seconds, so that it arrives at once. */
function timeOf(payload: Uint8Array): number {
  try {
    return decodeKvEvents(payload).ts;
  } catch (error) {
    if (error instanceof KvEventsError) return 0;
    throw error;
  }
}

/** Delivers the messages. A restart of the publisher also ends the connection. */
export function delivered(messages: readonly SentMessage[], options: ChannelOptions = {}): KvReport {
  const { joinAt = 0, leaveAt = -1, away = 0, buffer, replayAfter = 0, ...checkOptions } = options;
  const pending: { topic: string; start: number; dueAt: number }[] = [];
  let at = 0;
  const checker = new KvChecker({
    ...checkOptions,
    ...(buffer === undefined
      ? {}
      : { onReplayWanted: (topic, start) => pending.push({ topic, start, dueAt: at + replayAfter }) }),
  });
  const replay = () => {
    while (pending.length > 0 && pending[0]!.dueAt <= at) {
      const { topic, start } = pending.shift()!;
      const { life } = messages[Math.min(at, messages.length - 1)]!;
      const published = messages.slice(0, at + 1).filter((message) => message.life === life);
      for (const { frames } of published.slice(Math.max(0, published.length - buffer!)))
        if (Number(frames[1].readBigUInt64BE()) >= start) checker.replayed(topic, frames);
      checker.replayEnded(topic);
    }
  };
  let life: number | null = null;
  for (; at < messages.length; at++) {
    const message = messages[at]!;
    if (at < joinAt || (at >= leaveAt && at < leaveAt + away)) continue;
    if (life !== message.life || at === leaveAt + away) {
      checker.left();
      checker.joined();
      pending.length = 0;
    }
    life = message.life;
    checker.message(message.frames, timeOf(message.frames[2]));
    replay();
  }
  return checker.report();
}
