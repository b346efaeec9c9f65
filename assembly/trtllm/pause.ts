// What becomes of a paused request's tokens? They become part of its prompt, cut at max_input_len; what is cut off is made a
// second time. With overlap the token on its way belongs to them, so this waits until it is taken in.
import { column } from "../column";
import { maxNumSeqs } from "../config";
import { row, slotOf } from "../slots";
import { maxInputLen } from "./config";
import { State } from "./layout";
import { line } from "./line";

let waiting = changetype<StaticArray<i32>>(0);
let waitingCount: i32 = 0;

export function takePauses(): void {
  waiting = column(maxNumSeqs);
}

/** The request of this handle was paused. */
export function notePause(handle: i32): void {
  waiting[waitingCount++] = handle;
}

/** No token of a paused request is on its way. */
export function resumePrompts(): void {
  for (let i = 0; i < waitingCount; i++) {
    const slot = slotOf(waiting[i]);
    if (slot < 0 || line(slot).state !== State.ContextInit) continue;
    const l = line(slot);
    l.length = min(maxInputLen, l.length);
    l.context = l.length;
    // What comes next for it are chunks of a prompt, not tokens.
    row(slot).calmUntil = 0;
  }
  waitingCount = 0;
}
