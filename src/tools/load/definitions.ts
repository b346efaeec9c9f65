/** Defines each number that `load` reports. Every result carries the definitions of its own numbers. */
import { generates, type LoadDialect } from "./requests/dialects.ts";

const DEFINITIONS: Readonly<Record<string, string>> = {
  intended:
    "the schedule's time (open loop), or the moment at which a slot came free (closed loop); of a conversation's later turns not before its user has thought",
  ttft: "first chunk with generated output minus the first byte of the request handed to the kernel. Output is non-empty content, reasoning, a tool or function call, or empty content without role; of responses and messages any non-empty delta of text, reasoning or a call",
  ttft_intended: "the same from the intended time",
  sched_delay:
    "first byte sent minus the intended time: waiting for a slot, for a connection and for the client itself",
  chunk:
    "an event with output; its time is the moment at which the kernel named its connection as readable: connections named together, and events of one read, share it",
  icl: "gaps between chunks with output, pooled over all requests",
  itl: "gaps between tokens, pooled: the first token of a chunk carries the gap, the others 0. Where the server does not say how many tokens a chunk holds, the same as icl",
  tpot: "(last chunk minus first chunk) / (n - k), k tokens in the first chunk (1 where unknown), for n > k",
  e2el: "last chunk with output minus send",
  e2el_intended: "the same from the intended time",
  e2el_eof: "end of the body minus send",
  n: "output tokens as usage says, else the number of chunks with output",
  output_throughput: "tokens of complete requests / (last chunk of any minus first send)",
  tokens_per_s_per_user:
    "of each complete request its output tokens / e2el, TTFT included; p1 and p10 are the slow users",
  retries:
    "requests sent again after no answer; times count from the first send, so the waits between are in ttft and e2el. per_request: retries / requests",
  steady:
    "the window from the first moment of full concurrency (open loop: the end of the first request) to the last send; latencies of requests sent within it, throughput of chunks within it",
  goodput: "requests within all limits / duration; failed ones are not good. attainment: good ones / all",
  percentiles: "linear between neighbours (numpy's default), on all samples",
  adj: "percentiles in which a failed request counts as infinitely slow; null is infinite",
  disturbed: "requests cut on purpose or read slowly on purpose are in no latency",
  flat: "the keys outside of this object are those of vllm bench serve 0.33, with its definitions: itl per chunk, duration from the first dispatch to the end of the last request",
};

/** Definitions for answers without tokens, for which only the whole answer is timed. */
const WHOLE_ANSWERS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["intended", "sched_delay", "e2el_intended", "e2el_eof", "goodput", "percentiles", "adj", "disturbed"].map(
      (name) => [name, DEFINITIONS[name]!],
    ),
  ),
  e2el: "the moment at which the last byte of the answer was read minus send",
  input_throughput: "input tokens of complete requests / (end of the last answer minus first send)",
  retries:
    "requests sent again after no answer; times count from the first send, so the waits between are in e2el. per_request: retries / requests",
  steady:
    "the window from the first moment of full concurrency (open loop: the end of the first request) to the last send; latencies of requests sent within it",
  flat: "the keys outside of this object are those of vllm bench serve 0.33 for its pooling backends, and failed",
};

export const definitionsFor = (dialect: LoadDialect): Readonly<Record<string, string>> =>
  generates(dialect) ? DEFINITIONS : WHOLE_ANSWERS;
