/** The characters by which byte-level vocabularies spell bytes. */

/** Returns GPT-2's character for each byte: its Latin-1 character if that prints, else the next one from U+0100. */
export function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const prints = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCodePoint(prints ? byte : next++);
  });
}
