// Adds the generated tokens of paused requests to their prompts. The prompt is cut at max_input_len, and the tokens cut
// off are generated again. With overlap, the token in flight belongs to the prompt, too, so this waits for its update.
import { column } from "../column";
import { maxNumSeqs } from "../config";
import { row, slotOf } from "../slots";
import { maxInputLen } from "./config";
import { State } from "./layout";
import { line } from "./line";

let waiting = changetype<StaticArray<i32>>(0);
let waitingCount: i32 = 0;

export function allocatePauses(): void {
  waiting = column(maxNumSeqs);
}

/** Records that the request was paused. */
export function notePause(handle: i32): void {
  waiting[waitingCount++] = handle;
}

/** Rebuilds the prompts. The caller makes sure that paused requests have no token in flight. */
export function resumePrompts(): void {
  for (let i = 0; i < waitingCount; i++) {
    const slot = slotOf(waiting[i]);
    if (slot < 0 || line(slot).state !== State.ContextInit) continue;
    const l = line(slot);
    l.length = min(maxInputLen, l.length);
    l.context = l.length;
    // The next rows of the request are chunks of its prompt, so they are not plain tokens.
    row(slot).calmUntil = 0;
  }
  waitingCount = 0;
}
