/** Writes comments to streams that send nothing for a while, like vLLM's `--sse-keep-alive-interval`. */
import type { ServerTraits } from "../request/server-traits.ts";
import type { StreamedAnswer } from "./stream.ts";

/** Number of checks of a stream per keep-alive interval. */
const CHECKS_PER_INTERVAL = 20;

/**
 * Writes `comment` to a stream whenever it has sent nothing for `keepAliveS` seconds. Compares its bytes 20 times per interval
 * instead of acting on each token, so that tokens cost nothing. A comment is therefore up to 5 % of the interval late.
 */
export function watchSilence(
  answer: StreamedAnswer,
  { backend: { after } }: ServerTraits,
  keepAliveS: number,
  comment: string,
): void {
  if (after === undefined) return;
  const checkUs = (keepAliveS * 1e6) / CHECKS_PER_INTERVAL;
  let bytes = -1;
  let silentChecks = 0;
  const check = () => {
    if (answer.choices.every(({ done }) => done)) return;
    let sent = 0;
    for (const choice of answer.choices) {
      choice.submission?.settle?.();
      sent += choice.bytes;
    }
    silentChecks = sent === bytes ? silentChecks + 1 : 0;
    bytes = sent;
    if (silentChecks >= CHECKS_PER_INTERVAL) {
      silentChecks = 0;
      if (!answer.busy) answer.sink.write(comment);
    }
    after(checkUs, check);
  };
  check();
}
