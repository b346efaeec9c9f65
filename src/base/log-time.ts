/**
 * Writes the time in front of log lines, in the format of the server that the role stands in for: vLLM's `vllm/logger.py`
 * (0.33), Triton's `logging.cc` (24.10) and TensorRT-LLM's `tensorrt_llm/logger.py` (1.3). Where the real format names a source
 * file and line, these lines have the name of the program.
 */
import { epochMs } from "./clock.ts";

const two = (value: number) => `${value}`.padStart(2, "0");
const clockText = (hours: number, minutes: number, seconds: number) => `${two(hours)}:${two(minutes)}:${two(seconds)}`;
const localClock = (at: Date) => clockText(at.getHours(), at.getMinutes(), at.getSeconds());

const ofVllm = (at: Date) => `INFO ${two(at.getMonth() + 1)}-${two(at.getDate())} ${localClock(at)} [understudy]`;

const PREFIXES = {
  vllm: ofVllm,
  "vllm-engine": ofVllm,
  // Triton logs the time in UTC.
  triton: (at: Date) => {
    const clock = clockText(at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds());
    const us = `${at.getUTCMilliseconds()}000`.padStart(6, "0");
    return `I${two(at.getUTCMonth() + 1)}${two(at.getUTCDate())} ${clock}.${us} ${process.pid} understudy]`;
  },
  "trtllm-serve": (at: Date) =>
    `[${two(at.getMonth() + 1)}/${two(at.getDate())}/${at.getFullYear()}-${localClock(at)}] [TRT-LLM] [I]`,
};

/** Matches log lines of uvicorn, including its access log. The real servers write these lines without a time, too. */
const OF_UVICORN = /^[A-Z]+: {2,}/;

/** Returns the line with its time in front. Lines of uvicorn are returned unchanged. */
export function timedLine(line: string, role: keyof typeof PREFIXES, at: Date = new Date(epochMs())): string {
  return OF_UVICORN.test(line) ? line : `${PREFIXES[role](at)} ${line}`;
}
