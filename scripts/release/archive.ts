/** Writes archives whose bytes depend on their files only: `.tgz` of entries in the order of their names, all of one time. */

export interface ArchiveEntry {
  /** Path in the archive, of at most 100 bytes. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

const BLOCK = 512;
/** Most bytes of a path in a header (POSIX.1-1988, ustar). */
const PATH_MOST = 100;

/** Returns the header of a regular file that everybody can read. `timeS`: seconds since 1970. */
function headerOf(path: string, size: number, timeS: number): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => header.set(new TextEncoder().encode(text), at);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  if (new TextEncoder().encode(path).length > PATH_MOST)
    throw new Error(`${path}: the path is too long for an archive`);
  put(0, path);
  put(100, octal(0o644, 7));
  put(108, octal(0, 7)); // user
  put(116, octal(0, 7)); // group
  put(124, octal(size, 11));
  put(136, octal(timeS, 11));
  put(148, " ".repeat(8)); // the checksum counts as blanks
  put(156, "0"); // regular file
  put(257, "ustar\x0000");
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)} `);
  return header;
}

/** Returns a compressed archive. `timeS`: time of all entries, in seconds since 1970. */
export function archiveOf(entries: readonly ArchiveEntry[], timeS: number): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const { path, bytes } of entries.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    parts.push(headerOf(path, bytes.length, timeS), bytes);
    parts.push(new Uint8Array((BLOCK - (bytes.length % BLOCK)) % BLOCK));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return compressed(Buffer.concat(parts));
}

/** Compresses with Bun's own code, so that the bytes depend on the pinned version only. */
function compressed(bytes: Uint8Array<ArrayBuffer>): Uint8Array {
  const zipped = Bun.gzipSync(bytes, { level: 9 });
  zipped.fill(0, 4, 8); // time
  zipped[9] = 255; // operating system: unknown
  return zipped;
}

/** Compresses an archive of npm again, because its bytes depend on the version of Node. */
export const compressedAgain = (archive: Uint8Array<ArrayBuffer>): Uint8Array =>
  compressed(Buffer.from(Bun.gunzipSync(archive)));
