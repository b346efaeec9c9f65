/** Counts the values of a body before anything is made of it: they may take many times the memory of its bytes. */

/** Lists and objects take some 50 to 100 bytes each, what stands in them 8, a name 300 with its copies. */
const CONTAINERS_MOST = 2_000_000;
const MEMBERS_MOST = 12_000_000;
const NAMES_MOST = 2_200_000;
/** Shorter texts cannot hold as many. */
const SHORT = CONTAINERS_MOST;

/** Says what there is too much of. Null: nothing. Brackets, commas and colons in texts do not count. */
export function valuesIn(text: string): string | null {
  if (text.length < SHORT) return null;
  let [containers, members, names] = [0, 0, 0];
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (unit === 0x5b || unit === 0x7b) containers++;
    else if (unit === 0x2c) members++;
    else if (unit === 0x3a) names++;
  }
  if (containers > CONTAINERS_MOST) return `a body has at most ${CONTAINERS_MOST} lists and objects`;
  if (names > NAMES_MOST) return `objects of a body have at most ${NAMES_MOST} members`;
  return members > MEMBERS_MOST ? `lists and objects of a body have at most ${MEMBERS_MOST} members` : null;
}
