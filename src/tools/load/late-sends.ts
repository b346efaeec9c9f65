/**
 * Finds out whether requests were sent so late that the run measured the client. Lateness is compared with the measured
 * values: it may be at most a tenth of them.
 */
import { percentile } from "../report/distribution.ts";
import { greatest, isGoodAnswer, least } from "./measures.ts";
import type { RequestRecord } from "./requests/types.ts";

/** Largest acceptable share of lateness in a measured value, as for measuring instruments. */
const ERROR_SHARE_MOST = 0.1;
/**
 * Largest acceptable loss of request rate. On a server that is 90 % busy, 1 % less load makes the queue about 10 % shorter,
 * because waiting grows with 1 / (1 - utilisation).
 */
const RATE_SHARE_MOST = 0.01;

export interface SendPacing {
  /** True if requests have intended times: in an open loop or with a schedule. */
  readonly timed: boolean;
  /** True if requests may have waited for other requests to end. */
  readonly capped: boolean;
}

/** Returns the measured values that late sends distort, each as a part of a sentence. Empty if there are none. */
export function lateSends(records: readonly RequestRecord[], pace: SendPacing): string[] {
  // A retried request waited for the server, not for the client, so leave it out.
  const sent = records.filter(({ sendUs, retries }) => sendUs >= 0 && retries === 0);
  const spoilt = [lateFirst(sent.filter(isGoodAnswer))];
  if (pace.timed) spoilt.push(slowRate(sent));
  if (pace.timed && !pace.capped) spoilt.push(lateGaps(sent));
  return spoilt.filter((entry) => entry !== null);
}

const sorted = (records: readonly RequestRecord[], us: (record: RequestRecord) => number): Float64Array =>
  Float64Array.from(records, us).sort();

/** Returns the latency that lateness is compared with. For answers without tokens that is the latency of the whole answer. */
export const firstLatency = ([good]: readonly RequestRecord[]): "TTFT" | "E2EL" =>
  good !== undefined && Number.isNaN(good.firstUs) ? "E2EL" : "TTFT";

/** Compares median with median and tail with tail, because one late send in a hundred changes p99 but not the median. */
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

/**
 * Checks the request rate. A client that falls behind sends at a lower rate than intended. Less than one request of delay is
 * ignored.
 */
function slowRate(sent: readonly RequestRecord[]): string | null {
  const span = (us: (record: RequestRecord) => number) => greatest(sent, us) - least(sent, us);
  const [intendedUs, sentUs] = [span((r) => r.intendedUs), span((r) => r.sendUs)];
  if (!(intendedUs > 0)) return null;
  const perSecond = (us: number) => (((sent.length - 1) / us) * 1e6).toFixed(2);
  const behindUs = sentUs - intendedUs;
  if (behindUs <= RATE_SHARE_MOST * sentUs || behindUs <= intendedUs / (sent.length - 1)) return null;
  return `${perSecond(sentUs)} requests/s instead of ${perSecond(intendedUs)}`;
}

/**
 * Checks gaps between tokens. A client that is late for every second send reads tokens just as late. The median is used, so
 * that first connections do not count.
 */
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
