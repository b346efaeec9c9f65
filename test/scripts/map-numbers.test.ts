/** Limits the number of files that a streaming chat passes through, so that a newcomer can follow it. */
import { expect, test } from "bun:test";

test("a streaming chat enters at most 45 files in 8 folders, with 15 changes of folder", async () => {
  const script = Bun.spawn([process.execPath, "scripts/map-numbers.ts"], { stdout: "pipe", stderr: "inherit" });
  const printed = await new Response(script.stdout).text();
  const [, files] = /to the queue: (\d+) files/.exec(printed) ?? [];
  const [, folders, changes] = /folders directly under src: (\d+) entered, (\d+) changes/.exec(printed) ?? [];
  expect(Number(files)).toBeWithin(20, 46);
  expect(Number(folders)).toBeWithin(1, 9);
  expect(Number(changes)).toBeWithin(1, 16);
}, 60_000);
