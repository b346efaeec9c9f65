/** Limits the values of a body before it is parsed, because they may take many times the memory of its bytes. */

/** Most lists and objects in a body. Each takes 50 to 100 bytes. */
const CONTAINERS_MOST = 2_000_000;
/** Most commas in a body, which separate members of lists and objects. A member takes 8 bytes. */
const MEMBERS_MOST = 12_000_000;
/** Most names of members in a body. Each takes 300 bytes with its copies. */
const NAMES_MOST = 2_200_000;
/** Length below which a text cannot exceed the limits. */
const SHORT = CONTAINERS_MOST;

/** Returns a message about the limit that the JSON text exceeds, or null. Does not count inside strings. */
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
