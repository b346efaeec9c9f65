/** Which words does a free text of a structured answer have? Plain ones, as default answers do. */
import type { Draws } from "./draws.ts";

const WORDS = (
  "river garden bridge station market letter teacher village engine window project report question answer story road city " +
  "forest network team plan design library season harbor path tool service small large quiet early bright steady local modern " +
  "useful strong open fresh short warm direct public simple clear"
).split(" ");
const FILLING = "abcdefghijklmnopqrstuvwxyz";

/** `from` to `to` characters of ASCII; without bounds one to three words. */
export function words(draws: Draws, from: number, to: number): string {
  let text = draws.pick(WORDS);
  for (let more = draws.below(3); more > 0 && text.length < to; more--) text += ` ${draws.pick(WORDS)}`;
  while (text.length < from) text += ` ${draws.pick(WORDS)}`;
  if (text.length <= to) return text;
  const cut = text.slice(0, to);
  return cut.endsWith(" ") ? cut.slice(0, -1) + draws.pick(FILLING.split("")) : cut;
}

/** A name for a property that the schema leaves open. */
export function propertyName(draws: Draws): string {
  return draws.pick(WORDS);
}
