/** Divides many events into shares, each of which is written in one turn of the event loop. */

/** Largest number of events in a turn. Also limits the choices of a stream that send in a turn. */
export const EVENTS_PER_TURN = 64;
/** Largest number of characters in a turn. Copying them takes some tenths of a millisecond. */
const CHARACTERS_PER_TURN = 262_144;

/** Returns the end of the share that begins at `from`. A share has at least one event. */
export function shareEnd(events: readonly string[], from: number): number {
  let characters = events[from]?.length ?? 0;
  let to = from + 1;
  while (to < events.length && to - from < EVENTS_PER_TURN && characters < CHARACTERS_PER_TURN)
    characters += events[to++]!.length;
  return Math.min(to, events.length);
}
