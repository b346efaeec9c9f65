/** Draws the words of free texts in structured answers. */
import type { Draws } from "./draws.ts";

const WORDS = (
  "river garden bridge station market letter teacher village engine window project report question answer story road city " +
  "forest network team plan design library season harbor path tool service small large quiet early bright steady local modern " +
  "useful strong open fresh short warm direct public simple clear"
).split(" ");
const FILLING = "abcdefghijklmnopqrstuvwxyz";

/** Returns words with `from` to `to` ASCII characters in all, one to three words if the bounds allow it. */
export function words(draws: Draws, from: number, to: number): string {
  let text = draws.pick(WORDS);
  for (let more = draws.below(3); more > 0 && text.length < to; more--) text += ` ${draws.pick(WORDS)}`;
  while (text.length < from) text += ` ${draws.pick(WORDS)}`;
  if (text.length <= to) return text;
  const cut = text.slice(0, to);
  return cut.endsWith(" ") ? cut.slice(0, -1) + draws.pick(FILLING.split("")) : cut;
}

/** Returns a name for a property that the schema does not name. */
export function propertyName(draws: Draws): string {
  return draws.pick(WORDS);
}
