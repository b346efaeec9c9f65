/** One request of a front end while it runs: makes an output of the tokens that each step gives it. */
import { Finish, type Submission } from "../../engine/interface/types.ts";
import type { PlayedChoice } from "../openai/overrides/play.ts";
import { type EngineCoreOutput, type OutputFinish, PLAIN_OUTPUT } from "./messages/outputs.ts";
import type { EngineRun } from "./prepare.ts";
import type { RequestFacts } from "./request-facts.ts";

/** Receives the outputs of a request. */
export interface OutputReceiver {
  /** Reports whether an earlier output of the request may be read later. Otherwise it is filled again, if it has only tokens. */
  keepsOutputOf(request: RunningRequest): boolean;
  /** Called before the first output. */
  begun(): void;
  /** `dueUs`: due time of the step. Undefined: now. */
  output(request: RunningRequest, output: EngineCoreOutput, dueUs: number | undefined): void;
  /** Called after the last output. */
  ended(request: RunningRequest, finish: Finish): void;
}

/** vLLM's stop reason of an answer that repeats itself. */
const REPETITION = "repetition_detected";

export class RunningRequest implements PlayedChoice {
  readonly index = 0;
  readonly streams = true;
  submission: Submission | null = null;
  finish: Finish | null = null;
  /** Tokens that have been sent. */
  #position = 0;
  /** The output with tokens alone that each step fills again. Null before the first one. */
  #plain: (EngineCoreOutput & { readonly new_token_ids: number[] }) | null = null;

  constructor(
    readonly id: string,
    /** Index of the process that waits for the outputs. */
    readonly client: number,
    private readonly prepared: EngineRun,
    private readonly facts: RequestFacts,
    private readonly receiver: OutputReceiver,
  ) {}

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.finish !== null || (finish === null && count === 0)) return;
    const { submission, prepared, receiver } = this;
    const isPlain = finish === null && prepared.logprobs === null && !receiver.keepsOutputOf(this);
    if (isPlain && this.facts.areNone(submission!)) {
      this.#plain ??= { ...PLAIN_OUTPUT, request_id: this.id, new_token_ids: [] };
      const { new_token_ids: tokens } = this.#plain;
      tokens.length = count;
      for (let i = 0; i < count; i++) tokens[i] = ids[at + i]!;
      receiver.output(this, this.#plain, submission!.timeline?.stepDueUs);
      this.#position += count;
      return;
    }
    const { isFirst, ...facts } = this.facts.next(submission!);
    if (isFirst) receiver.begun();
    const tokens = Array.from(ids.subarray(at, at + count));
    receiver.output(
      this,
      {
        ...PLAIN_OUTPUT,
        ...facts,
        request_id: this.id,
        new_token_ids: tokens,
        new_logprobs: tokens.length === 0 ? null : (prepared.logprobs?.of(tokens, this.#position) ?? null),
        new_prompt_logprobs_tensors: isFirst ? prepared.promptLogprobs : null,
        kv_transfer_params: finish === null ? null : prepared.kvTransferParams,
        finish_reason: finish as OutputFinish | null,
        stop_reason: finish === Finish.Repetition ? REPETITION : stopTokenId < 0 ? null : stopTokenId,
      },
      submission!.timeline?.stepDueUs,
    );
    this.#position += count;
    if (finish === null) return;
    this.finish = finish;
    receiver.ended(this, finish);
  }

  /** Ends the request without an output. */
  abort(): void {
    this.finish = Finish.Abort;
    this.submission?.cancel();
  }
}
