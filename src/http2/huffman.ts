/** Which characters do these bits mean? The code of RFC 7541, appendix B: canonical, so each character's length says it all. */

/** Bits of the code of each byte, then of the end, which never stands in a text. */
const LENGTHS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
  28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6,
  5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
  22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22,
  23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26,
  20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27,
  27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
  27, 27, 27, 26, 30,
];
const END = 256;
/** Padding has fewer bits than a byte. */
const PADDING_MOST = 7;

/** Two places per node, for 0 and 1: the next node, or `~character`. */
const NODES = tree();

function tree(): Int16Array {
  const nodes = [0, 0];
  const order = LENGTHS.map((_, character) => character);
  order.sort((a, b) => LENGTHS[a]! - LENGTHS[b]! || a - b);
  let code = 0;
  let bits = 0;
  for (const character of order) {
    code *= 2 ** (LENGTHS[character]! - bits);
    bits = LENGTHS[character]!;
    let node = 0;
    for (let bit = bits - 1; bit >= 0; bit--) {
      const place = node + (Math.floor(code / 2 ** bit) & 1);
      if (bit === 0) nodes[place] = ~character;
      else {
        if (nodes[place] === 0) nodes[place] = nodes.push(0, 0) - 2;
        node = nodes[place]!;
      }
    }
    code++;
  }
  return Int16Array.from(nodes);
}

/** The text of the bytes, one character each; null: they are no code. */
export function huffmanText(bytes: Uint8Array, from: number, to: number): string | null {
  let text = "";
  let node = 0;
  /** Bits since the last character, and whether all of them were 1. */
  let [open, ones] = [0, true];
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!;
    for (let bit = 7; bit >= 0; bit--) {
      const one = (byte >> bit) & 1;
      const next = NODES[node + one]!;
      if (next >= 0) {
        node = next;
        open++;
        ones &&= one === 1;
        continue;
      }
      if (~next === END) return null;
      text += String.fromCharCode(~next);
      node = 0;
      open = 0;
      ones = true;
    }
  }
  return ones && open <= PADDING_MOST ? text : null;
}
