/** Tests that a command refuses wrong usage in one line, even if the message quotes a line end. */
import { expect, test } from "bun:test";
import { refuser } from "../../src/cli/refuse.ts";

test("a line end in a message is printed as an escape, and the exit code is 2", () => {
  const before = process.exitCode;
  const { error } = console;
  const lines: string[] = [];
  console.error = (line: string) => void lines.push(line);
  try {
    refuser("serve")("serve.yaml:1: a\nb: unknown key");
    expect(process.exitCode).toBe(2);
  } finally {
    console.error = error;
    process.exitCode = before ?? 0;
  }
  expect(lines).toEqual(["understudy serve: serve.yaml:1: a\\x0ab: unknown key"]);
});
