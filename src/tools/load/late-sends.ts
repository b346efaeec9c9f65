/**
 * Did requests leave so late that the run measured the client? Lateness is judged against what was measured: an instrument
 * may be wrong by a tenth of what it measures, no more.
 */
import { percentile } from "../report/distribution.ts";
import { greatest, isGoodAnswer, least } from "./measures.ts";
import type { RequestRecord } from "./requests/types.ts";

/** The gauge maker's rule of ten. */
const ERROR_SHARE_MOST = 0.1;
/**
 * Where a server is nine tenths busy, a hundredth less load makes its queue a tenth shorter (waiting goes with
 * 1 / (1 - utilisation)): so this is the same tenth.
 */
const RATE_SHARE_MOST = 0.01;

export interface SendPacing {
  /** Requests have times of their own: an open loop or a schedule. */
  readonly timed: boolean;
  /** Requests may have waited for others to end. */
  readonly capped: boolean;
}

/** What the late sends spoil, each a part of a sentence; empty: nothing. */
export function lateSends(records: readonly RequestRecord[], pace: SendPacing): string[] {
  // One that was sent again waited for the server, not for the client.
  const sent = records.filter(({ sendUs, retries }) => sendUs >= 0 && retries === 0);
  const found = [lateFirst(sent.filter(isGoodAnswer))];
  if (pace.timed) found.push(slowRate(sent));
  if (pace.timed && !pace.capped) found.push(lateGaps(sent));
  return found.filter((one) => one !== null);
}

const sorted = (records: readonly RequestRecord[], us: (record: RequestRecord) => number): Float64Array =>
  Float64Array.from(records, us).sort();

/** The latency that lateness is compared with. Answers without tokens have only that of the whole answer. */
export const firstLatency = ([good]: readonly RequestRecord[]): "TTFT" | "E2EL" =>
  good !== undefined && Number.isNaN(good.firstUs) ? "E2EL" : "TTFT";

/** Compares half with half and tail with tail: one late send in a hundred moves p99 and not the median. */
function lateFirst(good: readonly RequestRecord[]): string | null {
  if (good.length === 0) return null;
  const name = firstLatency(good);
  const endUs = (r: RequestRecord) => (name === "TTFT" ? r.firstUs : r.lastUs);
  const fromSend = sorted(good, (r) => endUs(r) - r.sendUs);
  const fromIntended = sorted(good, (r) => endUs(r) - r.intendedUs);
  for (const q of [50, 99]) {
    const latencyUs = percentile(fromSend, q);
    const lateUs = percentile(fromIntended, q) - latencyUs;
    if (lateUs > ERROR_SHARE_MOST * latencyUs) {
      return `${ms(lateUs)} ms of the p${q} of ${name} from the intended time, ${percent(lateUs / latencyUs)} of ${name} from the send`;
    }
  }
  return null;
}

/** A client that falls behind offers less than it was told to. Less than one request behind is nobody's rate. */
function slowRate(sent: readonly RequestRecord[]): string | null {
  const span = (us: (record: RequestRecord) => number) => greatest(sent, us) - least(sent, us);
  const [intendedUs, sentUs] = [span((r) => r.intendedUs), span((r) => r.sendUs)];
  if (!(intendedUs > 0)) return null;
  const perSecond = (us: number) => (((sent.length - 1) / us) * 1e6).toFixed(2);
  const behindUs = sentUs - intendedUs;
  if (behindUs <= RATE_SHARE_MOST * sentUs || behindUs <= intendedUs / (sent.length - 1)) return null;
  return `${perSecond(sentUs)} requests/s in place of ${perSecond(intendedUs)}`;
}

/** Who gets late to every other send gets as late to the tokens. Connections that are opened first are no median. */
function lateGaps(sent: readonly RequestRecord[]): string | null {
  let [gapsUs, gaps] = [0, 0];
  for (const record of sent) {
    if (!isGoodAnswer(record) || record.outputTokens < 2) continue;
    gapsUs += record.lastUs - record.firstUs;
    gaps += record.outputTokens - 1;
  }
  if (gapsUs === 0) return null;
  const meanUs = gapsUs / gaps;
  const delayUs = percentile(
    sorted(sent, (r) => r.sendUs - r.intendedUs),
    50,
  );
  if (delayUs <= ERROR_SHARE_MOST * meanUs) return null;
  return `half of them by ${ms(delayUs)} ms or more, ${percent(delayUs / meanUs)} of the mean gap between tokens`;
}

const ms = (us: number): string => (us / 1000).toFixed(2);
const percent = (share: number): string => `${(share * 100).toFixed(0)} %`;
