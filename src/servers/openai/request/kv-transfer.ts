/**
 * Which requests share their work with another server, and how long does that take? With `--kv-transfer-time`, as in
 * llm-d-inference-sim: a prompt that was computed elsewhere is waited for, one that another server goes on with says so.
 * Without the option `kv_transfer_params` mean nothing, as to a vLLM without a connector.
 */

import type { LiveValue } from "../../../base/live-value.ts";
import { mix } from "../../../base/random.ts";
import type { KvTransferTime } from "../../../kernel/kernel-config.ts";
import { normal } from "../../../text/answers/answers.ts";
import { Refused } from "../../pydantic/refusals.ts";
import { get, type PythonDict } from "../../pydantic/value.ts";
import { badRequest } from "./errors.ts";
import type { KvTransfer } from "./request.ts";

export const REMOTE_DECODE = "remote_decode";
/** What the other server is to be told: fields and types of vLLM's connector; nothing is listening there. */
export const REMOTE_PARAMS =
  '{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":"understudy","remote_block_ids":["0"],"remote_host":"localhost","remote_port":5600,"tp_size":1}';
/** How far a time may be from its mean. */
const MOST = 0.7;
/** Separates these draws from others of the same seed. */
const SALT = 0x510e527f;

/** What the field says; null: neither. Throws `Refused`. */
export function kvTransferOf(field: PythonDict, streams: boolean): KvTransfer | null {
  const [remotePrefill, remoteDecode] = [isTrue(field, "do_remote_prefill"), isTrue(field, "do_remote_decode")];
  if (remoteDecode && streams)
    throw new Refused(badRequest("an answer with do_remote_decode cannot be streamed", "stream"));
  return remotePrefill || remoteDecode ? { remotePrefill, remoteDecode } : null;
}

const isTrue = (field: PythonDict, name: string) => get(field, name) === true;

export class Transfers {
  readonly #time: LiveValue<KvTransferTime | undefined>;
  readonly #seed: number;
  #drawn = 0;

  constructor(time: LiveValue<KvTransferTime | undefined>, seed: number) {
    this.#time = time;
    this.#seed = seed ^ SALT;
  }

  /** What the prompt is held back for, in place of the request's overhead; undefined: it is computed here. */
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
