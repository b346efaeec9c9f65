/**
 * Checks sampling parameters as TensorRT-LLM does: `SamplingParams._validate` (`sampling_params.py`, version 1.3), then the
 * assertions of the executor (`samplingConfig.cpp`, `requestImpl.h`). The messages omit the source line and the stack of the
 * real ones. A value that TensorRT-LLM accepts and vLLM refuses is changed to the nearest value that vLLM accepts.
 */
import { refuse } from "../pydantic/refusals.ts";
import { reprFloat } from "../pydantic/repr.ts";
import { get, numberOf, type PythonDict, set, truthy } from "../pydantic/value.ts";
import { flatError } from "./errors.ts";

/** Highest temperature that vLLM's table of fields accepts. Higher temperatures would generate the same texts. */
const HOTTEST = 2;
const PENALTY_MOST = 2;

const refuseFlat = (message: string): never => refuse(flatError(message));

/**
 * Checks and changes the sampling fields of a body. Values that are not numbers are refused later, by the table of fields.
 * Throws `RefusedRequest`.
 */
export function useSampling(body: PythonDict): void {
  const of = (name: string) => numberOf(get(body, name));
  const [topP, topK, temperature, minP] = ["top_p", "top_k", "temperature", "min_p"].map(of);
  checkShare("top_p", topP);
  if (topK !== undefined && topK < 0) refuseFlat(`require top_k >= 0, got top_k=${topK}`);
  if (temperature !== undefined && temperature < 0)
    refuseFlat(`require temperature >= 0, got temperature=${reprFloat(temperature)}`);
  checkShare("min_p", minP);
  const isGreedy = temperature === 0 || topP === 0 || topK === 1;
  checkSequences(of("n") ?? 1, of("best_of"), isGreedy && !truthy(get(body, "use_beam_search")));
  checkAssertions(of);
  if (topP === 0) set(body, "top_p", 1);
  if (isGreedy) set(body, "temperature", 0);
  else if (temperature !== undefined && temperature > HOTTEST) set(body, "temperature", HOTTEST);
  takeAnyPenalty(body, of);
  takeAnyMinimum(body, of);
}

/** Refuses values that would fail an assertion in TensorRT-LLM's executor. The first failure in the executor's order is shown. */
function checkAssertions(of: (name: string) => number | undefined): void {
  const claims = [
    ["minTokens.value() >= 0", (of("min_tokens") ?? 0) >= 0],
    ["repetitionpenalty.value() > 0.f", !((of("repetition_penalty") ?? 1) <= 0)],
    ["promptIgnoreLength.value() >= 0", (of("prompt_ignore_length") ?? 0) >= 0],
    ["lengthPenalty.value() >= 0.f", !((of("length_penalty") ?? 1) < 0)],
    ["numReturnSequences.value() > 0", (of("n") ?? 1) > 0],
    ["mMaxNewTokens > 0", (longest(of) ?? 1) > 0],
  ] as const;
  const failed = claims.find(([, holds]) => !holds);
  if (failed) refuseFlat(`[TensorRT-LLM][ERROR] Assertion failed: ${failed[0]}`);
}

const longest = (of: (name: string) => number | undefined) => of("max_completion_tokens") ?? of("max_tokens");

/**
 * Limits presence and frequency penalties to the range that vLLM accepts. TensorRT-LLM accepts all penalties, and they have no
 * effect on generated texts.
 */
function takeAnyPenalty(body: PythonDict, of: (name: string) => number | undefined): void {
  for (const name of ["presence_penalty", "frequency_penalty"]) {
    const value = of(name);
    if (value !== undefined && Math.abs(value) > PENALTY_MOST) set(body, name, Math.sign(value) * PENALTY_MOST);
  }
}

/**
 * Lowers `min_tokens` to the largest number of output tokens. TensorRT-LLM accepts a larger value and ends the answer at that
 * number.
 */
function takeAnyMinimum(body: PythonDict, of: (name: string) => number | undefined): void {
  const most = longest(of);
  if (most !== undefined && (of("min_tokens") ?? 0) > most) set(body, "min_tokens", most);
}

function checkShare(name: string, value: number | undefined): void {
  if (value !== undefined && (value < 0 || value > 1))
    refuseFlat(`require 0 <= ${name} <= 1, got ${name}=${reprFloat(value)}`);
}

function checkSequences(n: number, given: number | undefined, isGreedy: boolean): void {
  const bestOf = given || n;
  if (bestOf < n) refuseFlat(`best_of (${bestOf}) cannot be less than n (${n})`);
  if (bestOf > 1 && isGreedy)
    refuseFlat(
      `Greedy decoding in the LLM API does not allow multiple returns. Please set to best_of=1, got best_of=${bestOf}. ` +
        "Please set to best_of=1 or set an environment variable TLLM_ALLOW_N_GREEDY_DECODING=1 to allow best_of > 1 " +
        "under the greedy decoding.",
    );
}
