/** How much of many events is written in one turn of the event loop? */

/** Or choices that are handed over, taken back or begun. */
export const EVENTS_OF_A_TURN = 64;
/** Characters are copied: some tenths of a millisecond. */
const CHARACTERS_OF_A_TURN = 262_144;

/** Where the share ends that begins at `from`: one event at least. */
export function shareEnd(events: readonly string[], from: number): number {
  let characters = events[from]?.length ?? 0;
  let to = from + 1;
  while (to < events.length && to - from < EVENTS_OF_A_TURN && characters < CHARACTERS_OF_A_TURN)
    characters += events[to++]!.length;
  return Math.min(to, events.length);
}
