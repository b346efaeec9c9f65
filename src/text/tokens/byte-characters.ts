/** How does a byte-level vocabulary spell bytes? */

/** GPT-2's character for each byte: those that print as Latin-1 stand for themselves, the others follow from U+0100 on. */
export function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const prints = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCodePoint(prints ? byte : next++);
  });
}
