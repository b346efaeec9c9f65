/** Finds what a reader of the numbers must know. Each warning is printed as well as written. */

import { firstLatency, lateSends, type SendPacing } from "./late-sends.ts";
import { CHUNKS_KEPT } from "./many-gaps.ts";
import { isGoodAnswer, isIncomplete, saysTokens } from "./measures.ts";
import { DIALECTS, generates, type LoadDialect } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";

export interface Evidence {
  readonly records: readonly RequestRecord[];
  readonly warmUp: readonly RequestRecord[];
  readonly pace: SendPacing;
  /** Share of one core that the client's event loop used while it measured. */
  readonly cpuShare: number;
  readonly measuredS: number;
  readonly stream: boolean;
  readonly dialect: LoadDialect;
  /** Requests say how many tokens they want, and answers show how many they have. */
  readonly asksLength: boolean;
  /** Lines of the dataset that were no requests; turns dropped after a failure. */
  readonly badLines: number;
  readonly droppedTurns: number;
  readonly estimatedLengths: boolean;
  /** Why the server's metrics could not be read; null: they were, or were left alone. */
  readonly metricsMissing: string | null;
  /** Requests the times of whose chunks were too many to keep. */
  readonly folded: number;
}

const CPU_SHARE_MOST = 0.8;
/** Shortest run that is judged: most of a shorter one is the client's own start. */
const CPU_SHARE_OVER_S = 0.5;
const OTHER_LENGTH_MOST = 0.01;

export function warningsOf(evidence: Evidence): string[] {
  const { records, warmUp, pace, cpuShare, badLines, droppedTurns, dialect } = evidence;
  const { saysUsage, ignoresEos, end } = DIALECTS[dialect];
  const hasTokens = generates(dialect);
  const stream = evidence.stream || !hasTokens;
  const good = records.filter(isGoodAnswer);
  const found: string[] = [];
  const late = lateSends(records, pace);
  if (late.length > 0) {
    const limit = pace.capped ? "--concurrency or the client" : "the client";
    const name = firstLatency(good);
    found.push(
      `requests left late: ${late.join("; ")}: ${limit} was the limit. ${name} from the send hides it; see ${name} from the intended time`,
    );
  }
  if (cpuShare > CPU_SHARE_MOST && evidence.measuredS > CPU_SHARE_OVER_S) {
    found.push(
      `the client's event loop used ${(cpuShare * 100).toFixed(0)} % of a core (its waiting for the next send included): it may have been the limit`,
    );
  }
  if (!stream)
    found.push("without streaming TTFT is the time of the whole answer, and there are no gaps between tokens");
  const silent = good.filter((r) => !r.usage).length;
  if (saysUsage && silent > 0) {
    const instead = hasTokens ? "their tokens are counted as chunks" : "their input tokens are those of the dataset";
    found.push(`${silent} answers came without usage: ${instead}`);
  }
  if (evidence.folded > 0) {
    found.push(
      `more than ${CHUNKS_KEPT} chunks: percentiles of itl and icl are of buckets 0.2 % wide; vLLM's itl keys, the peak and the series leave out the gaps of ${evidence.folded} requests`,
    );
  }
  const known = good.filter((r) => r.chunkUs.length > 0);
  const merged = known.filter((r) => r.usage && r.chunkUs.length < r.outputTokens).length;
  const unsaid = known.filter((r) => r.chunkUs.length < r.outputTokens && !saysTokens(r)).length;
  if (stream && unsaid > 0) {
    found.push(
      `${unsaid} answers have fewer chunks than tokens, and the server does not say how many a chunk holds: their ITL is per chunk, not per token`,
    );
  } else if (stream && merged > 0) {
    found.push(`${merged} answers have fewer chunks than tokens: the flat itl keys are per chunk, as vLLM has them`);
  }
  const asked = evidence.asksLength ? good.filter((r) => r.wantedTokens !== null && (stream || r.usage)) : [];
  const other = asked.filter((r) => r.outputTokens !== r.wantedTokens).length;
  if (other > OTHER_LENGTH_MOST * asked.length) {
    found.push(
      `${other} of ${asked.length} answers are not as long as asked for${ignoresEos ? "; --ignore-eos asks for full length" : ""}`,
    );
  }
  const incomplete = records.filter(isIncomplete).length;
  if (incomplete > 0)
    found.push(
      `${incomplete} streams ended without ${end}: they count as incomplete, and their times are in no latency`,
    );
  const noDone = good.filter((r) => !r.done).length;
  if (evidence.stream && saysUsage && noDone > 0) found.push(`${noDone} streams ended without [DONE]`);
  if (warmUp.some((r) => r.cachedTokens > 0)) {
    found.push("prompts of the warm-up were in the server's prefix cache: an earlier run left it warm");
  }
  if (badLines > 0) found.push(`${badLines} lines of the dataset hold no request and were left out`);
  if (droppedTurns > 0) found.push(`${droppedTurns} turns were left out because one before them had no answer`);
  if (evidence.metricsMissing !== null) {
    found.push(
      `the server's metrics could not be read (${evidence.metricsMissing}); --no-server-metrics leaves them alone`,
    );
  }
  if (evidence.estimatedLengths && (evidence.asksLength || !hasTokens)) {
    const known = saysUsage ? ", usage says what they were" : "";
    found.push(`the server has no /tokenize: lengths of made-up prompts are estimated${known}`);
  }
  return found;
}
