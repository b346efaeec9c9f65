// Limits up to which a request's steps are plain: one token and nothing else to decide. `planQuiet` and `handleCalmRows`
// handle such steps faster.
import { asyncScheduling, blockSize, maxModelLen, prefixCaching } from "../config";
import { Status, SUBMIT_FED, SUBMIT_STOPS } from "../layout";
import { Row } from "../slots";

/**
 * Returns the number of computed tokens up to which a plan for this request is one token and nothing else. With a step
 * in flight (asynchronous scheduling), the content of the block that a plan fills is not known yet, so the next plan
 * enters it in the prefix cache.
 */
export function quietUntil(r: Row): i32 {
  let until = min(r.tableCount * blockSize, maxModelLen - 1);
  if (asyncScheduling) until = min(until, r.prompt + r.maxTokens - 1);
  if (prefixCaching) until = min(until, asyncScheduling ? r.storeAt : r.storeAt - 1);
  return until;
}

/** Returns the number of outputs up to which each output is one plain token. */
export function calmUntil(r: Row): i32 {
  if ((r.flags & (SUBMIT_FED | SUBMIT_STOPS)) !== 0 || r.status !== Status.Running || r.stale > 0) return 0;
  let until = (r.eosAt > 0 ? min(r.eosAt, r.lastOutput) : r.lastOutput) - 1;
  if (prefixCaching) {
    until = min(until, r.fullAt - 1);
    if (asyncScheduling) until = min(until, r.outputs + r.storeAt - 1 - (r.computed - r.inFlight));
  }
  return until;
}
