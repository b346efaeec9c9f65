/** Collects warnings that a reader of the numbers must know. They are printed and written to the result. */

import { firstLatency, lateSends, type SendPacing } from "./late-sends.ts";
import { CHUNKS_KEPT } from "./many-gaps.ts";
import { isGoodAnswer, isIncomplete, saysTokens } from "./measures.ts";
import { DIALECTS, generates } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { RunFacts } from "./result.ts";
import type { Settings } from "./settings.ts";

export interface Evidence extends Pick<RunFacts, "cpuShare" | "measuredS">, Pick<Settings, "stream" | "dialect"> {
  readonly records: readonly RequestRecord[];
  readonly warmUp: readonly RequestRecord[];
  readonly pace: SendPacing;
  /** True if requests state an output length and answers state how many tokens they have. */
  readonly asksLength: boolean;
  /** Number of bad lines in the dataset. `droppedTurns`: turns that were left out after a failure. */
  readonly badLines: number;
  readonly droppedTurns: number;
  readonly estimatedLengths: boolean;
  /** Reason if the server's metrics could not be read. Null if they were read, or not requested. */
  readonly metricsMissing: string | null;
  /** Number of requests whose chunk times were too many to keep. */
  readonly folded: number;
}

const CPU_SHARE_MOST = 0.8;
/** Shortest run, in seconds, for which CPU use is judged. Shorter runs mostly measure the client's start. */
const CPU_SHARE_OVER_S = 0.5;
const OTHER_LENGTH_MOST = 0.01;

export function warningsOf(evidence: Evidence): string[] {
  const { records, warmUp, pace, cpuShare, badLines, droppedTurns, dialect } = evidence;
  const { saysUsage, ignoresEos, end } = DIALECTS[dialect];
  const hasTokens = generates(dialect);
  const stream = evidence.stream || !hasTokens;
  const good = records.filter(isGoodAnswer);
  const late = lateSends(records, pace);
  const limit = pace.capped ? "--concurrency or the client" : "the client";
  const name = firstLatency(good);
  const withoutUsage = good.filter((r) => !r.usage).length;
  const instead = hasTokens ? "their tokens are counted as chunks" : "their input tokens are those of the dataset";
  const chunked = good.filter((r) => r.chunkUs.length > 0);
  const merged = chunked.filter((r) => r.usage && r.chunkUs.length < r.outputTokens).length;
  const unknownWidths = chunked.filter((r) => r.chunkUs.length < r.outputTokens && !saysTokens(r)).length;
  const limited = evidence.asksLength ? good.filter((r) => r.wantedTokens !== null && (stream || r.usage)) : [];
  const other = limited.filter((r) => r.outputTokens !== r.wantedTokens).length;
  const incomplete = records.filter(isIncomplete).length;
  const noDone = good.filter((r) => !r.done).length;
  const warnings = [
    late.length > 0 &&
      `requests left late: ${late.join("; ")}: ${limit} was the limit. ${name} from the send hides it; see ${name} from the intended time`,
    cpuShare > CPU_SHARE_MOST &&
      evidence.measuredS > CPU_SHARE_OVER_S &&
      `the client's event loop used ${(cpuShare * 100).toFixed(0)} % of a core (including its wait for the next send): it may have been the limit`,
    !stream && "without streaming TTFT is the time of the whole answer, and there are no gaps between tokens",
    saysUsage && withoutUsage > 0 && `${withoutUsage} answers came without usage: ${instead}`,
    evidence.folded > 0 &&
      `more than ${CHUNKS_KEPT} chunks: percentiles of itl and icl are of buckets 0.2 % wide; vLLM's itl keys, the peak and the series leave out the gaps of ${evidence.folded} requests`,
    stream &&
      unknownWidths > 0 &&
      `${unknownWidths} answers have fewer chunks than tokens, and the server does not say how many a chunk has: their ITL is per chunk, not per token`,
    stream &&
      unknownWidths === 0 &&
      merged > 0 &&
      `${merged} answers have fewer chunks than tokens: the flat itl keys are per chunk, as vLLM has them`,
    other > OTHER_LENGTH_MOST * limited.length &&
      `${other} of ${limited.length} answers do not have the requested length${ignoresEos ? "; --ignore-eos requests full length" : ""}`,
    incomplete > 0 && `${incomplete} streams ended without ${end}: they count as incomplete and are not in any latency`,
    evidence.stream && saysUsage && noDone > 0 && `${noDone} streams ended without [DONE]`,
    warmUp.some((r) => r.cachedTokens > 0) &&
      "prompts of the warm-up were in the server's prefix cache: an earlier run filled it",
    badLines > 0 && `${badLines} lines of the dataset have no request and were skipped`,
    droppedTurns > 0 && `${droppedTurns} turns were skipped because an earlier turn had no answer`,
    evidence.metricsMissing !== null &&
      `the server's metrics could not be read (${evidence.metricsMissing}); --no-server-metrics disables this`,
    evidence.estimatedLengths &&
      (evidence.asksLength || !hasTokens) &&
      `the server has no /tokenize: lengths of generated prompts are estimated${saysUsage ? ", usage says what they were" : ""}`,
  ];
  return warnings.filter((warning) => warning !== false);
}
