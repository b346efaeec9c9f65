/**
 * A debug mode that overwrites reused buffers after each turn of the event loop. Code that reads such a buffer too late then
 * gets wrong bytes every time, instead of only when another writer came in between. `UNDERSTUDY_OVERWRITE_BUFFERS=1` turns it
 * on. It keeps a core busy, because there is always a next turn.
 */
import { everyTurn } from "./clock.ts";

const IS_ON = process.env.UNDERSTUDY_OVERWRITE_BUFFERS === "1";
/**
 * The byte with which used buffers are overwritten. No UTF-8 text and no length of a message begins with it, so a late
 * reader always gets wrong bytes.
 */
export const OVERWRITTEN_BYTE = 0xa5;

const buffers: (() => Uint8Array)[] = [];

/** Registers a buffer whose bytes nobody may read after the turn in which they were written. `current` returns the buffer. */
export function overwriteEachTurn(current: () => Uint8Array): void {
  if (!IS_ON) return;
  buffers.push(current);
  if (buffers.length === 1) everyTurn(overwrite);
}

function overwrite(): void {
  for (const current of buffers) current().fill(OVERWRITTEN_BYTE);
}
