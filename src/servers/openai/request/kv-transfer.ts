/**
 * Simulates requests that two servers share: one computes the prompt, the other the answer. With `--kv-transfer-time` a request
 * whose prompt another server computed is held back for the transfer, and the answer of a prompt that another server continues
 * says so. As in llm-d-inference-sim. Without the option `kv_transfer_params` have no effect, as in a vLLM without a connector.
 */

import type { LiveValue } from "../../../base/live-value.ts";
import { mix } from "../../../base/random.ts";
import type { KvTransferTime } from "../../../kernel/kernel-config.ts";
import { normal } from "../../../text/answers/answers.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { get, type PythonDict } from "../../pydantic/value.ts";
import { badRequest } from "./errors.ts";
import type { KvTransfer } from "./request.ts";

/** Finish reason of a prompt that another server continues. */
export const REMOTE_DECODE = "remote_decode";
/** Transfer parameters for the other server. Fields and types are those of vLLM's connector, but nothing listens there. */
export const REMOTE_PARAMS =
  '{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":"understudy","remote_block_ids":["0"],"remote_host":"localhost","remote_port":5600,"tp_size":1}';
/** Largest deviation of a time from its mean, as a share of the mean. */
const MOST = 0.7;
/** Salt that makes these draws independent of others from the same seed. */
const SALT = 0x510e527f;

/** Reads `kv_transfer_params`. Returns null if it asks for nothing. Throws `RefusedRequest` if a remote decode should be streamed. */
export function kvTransferOf(field: PythonDict, streams: boolean): KvTransfer | null {
  const [remotePrefill, remoteDecode] = [isTrue(field, "do_remote_prefill"), isTrue(field, "do_remote_decode")];
  if (remoteDecode && streams) refuse(badRequest("an answer with do_remote_decode cannot be streamed", "stream"));
  return remotePrefill || remoteDecode ? { remotePrefill, remoteDecode } : null;
}

const isTrue = (field: PythonDict, name: string) => get(field, name) === true;

/** Draws the times of transfers. */
export class Transfers {
  readonly #time: LiveValue<KvTransferTime | undefined>;
  readonly #seed: number;
  #drawn = 0;

  constructor(time: LiveValue<KvTransferTime | undefined>, seed: number) {
    this.#time = time;
    this.#seed = seed ^ SALT;
  }

  /**
   * Returns the microseconds for which a prompt is held back. They replace the overhead of the request. Undefined: the prompt is
   * computed here.
   */
  us({ remotePrefill }: KvTransfer, promptTokens: number): number | undefined {
    const time = remotePrefill ? this.#time.get() : undefined;
    if (time === undefined) return undefined;
    const { baseUs, tokenUs, deviationUs, stepUs } = time;
    const meanUs = baseUs + tokenUs * promptTokens;
    const most = MOST * meanUs;
    const strayed = deviationUs === 0 ? 0 : deviationUs * normal(mix(this.#seed, this.#drawn++));
    return Math.max(0, Math.round(meanUs + Math.max(-most, Math.min(most, strayed)) - stepUs));
  }
}
