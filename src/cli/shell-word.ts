/** Writes words so that a POSIX shell reads them unchanged. */

/** Returns the word, quoted if a shell would read it differently. */
export const shellWord = (word: string): string => (/^[\w@%+=:,./…-]+$/.test(word) ? word : shellQuoted(word));

export const shellQuoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
