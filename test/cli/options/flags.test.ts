/** Tests that a value after a switch is refused, and not silently read as a positional argument. */
import { expect, test } from "bun:test";
import { parseFlags } from "../../../src/cli/options/flags.ts";

const read = (line: string) => parseFlags(line.split(" "));

test.each([
  ["--enable-prefix-caching false", 'not "false"; write --enable-prefix-caching or --no-enable-prefix-caching'],
  ["m --disable-log-stats 1", '--disable-log-stats: takes no value, not "1"; write --disable-log-stats'],
  ["m --no_enable_chunked_prefill True --port 1", "write --enable-chunked-prefill or --no-enable-chunked-prefill"],
  ["--enable-partial-reuse off", 'takes no value, not "off"'],
  ["--enable-partial-reuse ON", 'takes no value, not "ON"'],
  ["m --trust-remote-code yes", 'takes no value, not "yes"'],
  ["m --trust-remote-code no", 'takes no value, not "no"'],
  ["m --trust-remote-code true", 'takes no value, not "true"'],
])("a value after a switch is refused: %s", (line, why) => {
  const flags = read(line);
  expect("error" in flags && flags.error).toContain(why);
  expect("error" in flags && flags.error).not.toContain("\n");
});

test.each([
  ["--enable-prefix-caching org/true", ["org/true"]],
  ["--enable-prefix-caching m true", ["m", "true"]],
  ["--enable-prefix-caching -- true", ["true"]],
  ["--enable-prefix-caching --port 1 true", ["true"]],
  ["true --enable-prefix-caching", ["true"]],
])("other words are positional arguments: %s", (line, positional) => {
  expect(read(line)).toMatchObject({ positional });
});
