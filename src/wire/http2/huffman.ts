/**
 * Decodes Huffman-coded strings of HPACK: RFC 7541, section 5.2 and appendix B. The code is canonical, so the lengths
 * alone define it. A table turns four bits at a time into the next state. A walk of the tree bit by bit, with a text that
 * grows by a character at a time, took seven times as long and left much garbage.
 */

/** Number of bits in the code of each byte, then of EOS, which no valid string contains. */
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
const EOS = 256;
/** Padding is shorter than one byte. */
const PADDING_BITS_MOST = 7;

/** Layout of a transition: the next state, the decoded byte, a flag for that byte, a flag for an EOS. */
const STATE_MASK = 0x1ff;
const BYTE_SHIFT = 9;
const HAS_BYTE = 1 << 17;
const HAS_EOS = 1 << 18;

/** `transitions[state * 16 + fourBits]`; `endsWell[state]` is 1 where the bits since the last character are padding. */
const { transitions, endsWell } = tables();

function tables(): { readonly transitions: Int32Array; readonly endsWell: Uint8Array } {
  const nodes = tree();
  const states = nodes.length / 2;
  const transitions = new Int32Array(states * 16);
  for (let at = 0; at < transitions.length; at++) {
    let node = 2 * (at >> 4);
    let found = 0;
    for (let bit = 3; bit >= 0; bit--) {
      const next = nodes[node + ((at >> bit) & 1)]!;
      node = Math.max(next, 0);
      if (next < 0) found = ~next === EOS ? HAS_EOS : HAS_BYTE | (~next << BYTE_SHIFT);
    }
    transitions[at] = found | (node / 2);
  }
  const endsWell = new Uint8Array(states);
  for (let node = 0, bits = 0; bits <= PADDING_BITS_MOST; bits++, node = nodes[node + 1]!) endsWell[node / 2] = 1;
  return { transitions, endsWell };
}

/** The code as a tree: two places per node, for 0 and 1, each with the next node or `~character`. */
function tree(): number[] {
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
  return nodes;
}

/** The shortest code has five bits. */
const SHORTEST_BITS = 5;
/** Decoded bytes of the string being read. Grows to the longest string so far, which the size of a header block bounds. */
let decoded = Buffer.alloc(4096);

/** Decodes `bytes` from `from` to `to` into one character per byte. Returns null if they are not a valid code. */
export function huffmanText(bytes: Uint8Array, from: number, to: number): string | null {
  const most = Math.ceil(((to - from) * 8) / SHORTEST_BITS);
  if (most > decoded.length) decoded = Buffer.alloc(most);
  let length = 0;
  let step = 0;
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!;
    step = transitions[((step & STATE_MASK) << 4) | (byte >> 4)]!;
    if (step & HAS_BYTE) decoded[length++] = step >> BYTE_SHIFT;
    const first = step;
    step = transitions[((step & STATE_MASK) << 4) | (byte & 15)]!;
    if (step & HAS_BYTE) decoded[length++] = step >> BYTE_SHIFT;
    if ((first | step) & HAS_EOS) return null;
  }
  return endsWell[step & STATE_MASK] ? decoded.toString("latin1", 0, length) : null;
}
