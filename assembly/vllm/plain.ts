// How long is a request's decode plain? Limits up to which `planQuiet` and `takeCalm` may take the short way.
import { asyncScheduling, blockSize, maxModelLen, prefixCaching } from "../config";
import { Status, SUBMIT_FED, SUBMIT_STOPS } from "../layout";
import { Row } from "../slots";

/**
 * Up to how many computed tokens a plan for this request is one token and nothing else. Asynchronous, with a step in
 * flight: the content of the block that this plan fills is not known yet, so it is entered with the next.
 */
export function quietUntil(r: Row): i32 {
  let until = min(r.tableCount * blockSize, maxModelLen - 1);
  if (asyncScheduling) until = min(until, r.prompt + r.maxTokens - 1);
  if (prefixCaching) until = min(until, asyncScheduling ? r.storeAt : r.storeAt - 1);
  return until;
}

/** How many outputs there are before one that is not plain. */
export function calmUntil(r: Row): i32 {
  if ((r.flags & (SUBMIT_FED | SUBMIT_STOPS)) !== 0 || r.status !== Status.Running || r.stale > 0) return 0;
  let until = (r.eosAt > 0 ? min(r.eosAt, r.lastOutput) : r.lastOutput) - 1;
  if (prefixCaching) {
    until = min(until, r.fullAt - 1);
    if (asyncScheduling) until = min(until, r.outputs + r.storeAt - 1 - (r.computed - r.inFlight));
  }
  return until;
}
