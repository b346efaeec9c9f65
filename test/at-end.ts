/** What test files share ends after the last file of their process (preload.ts), or where a script says so. */
const ends: (() => Promise<void>)[] = [];

export function atEnd(end: () => Promise<void>): void {
  ends.push(end);
}

export async function endShared(): Promise<void> {
  await Promise.all(ends.splice(0).map((end) => end()));
}
