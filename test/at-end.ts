/**
 * Collects clean-up functions of resources that test files share. They run after the last test file of the process
 * (preload.ts), or when a script calls `endShared`.
 */
const ends: (() => Promise<void>)[] = [];

export function atEnd(end: () => Promise<void>): void {
  ends.push(end);
}

export async function endShared(): Promise<void> {
  await Promise.all(ends.splice(0).map((end) => end()));
}
