/** Comments in silent streams, as with vLLM's `--sse-keep-alive-interval`. */
import type { ServerTraits } from "../request/server-traits.ts";
import type { StreamedAnswer } from "./stream.ts";

/** How often a silent stream is looked at in the time after which it gets a comment. */
const LOOKS = 20;

/**
 * Writes `comment` to a stream that was silent for `keepAliveS` seconds. Looks now and then, so that a token costs nothing. So a
 * comment comes up to a look late.
 */
export function watchSilence(
  answer: StreamedAnswer,
  { backend: { after } }: ServerTraits,
  keepAliveS: number,
  comment: string,
): void {
  if (after === undefined) return;
  const lookUs = (keepAliveS * 1e6) / LOOKS;
  let bytes = -1;
  let silent = 0;
  const look = () => {
    if (answer.choices.every(({ done }) => done)) return;
    let sent = 0;
    for (const choice of answer.choices) {
      choice.submission?.settle?.();
      sent += choice.bytes;
    }
    silent = sent === bytes ? silent + 1 : 0;
    bytes = sent;
    if (silent >= LOOKS) {
      silent = 0;
      if (!answer.busy) answer.sink.write(comment);
    }
    after(lookUs, look);
  };
  look();
}
