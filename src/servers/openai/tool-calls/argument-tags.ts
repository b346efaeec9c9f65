/**
 * Reads arguments that models write between tags, with one reader per format. Sources in vLLM 0.33: `parser/qwen3.py`,
 * `parser/minimax_m2.py`, `parser/glm47_moe.py`, `parser/deepseek_v4.py`.
 */
import type { PythonValue } from "../../pydantic/value.ts";
import { pythonJsonIn } from "./parser-parts.ts";

type Match = RegExpExecArray | RegExpMatchArray;

/**
 * Reads arguments by name. `closed` matches a complete argument. `open` matches an incomplete last argument, or is null to ignore
 * it. `unnamed`: includes complete arguments with an empty name.
 */
function readTags(
  raw: string,
  closed: RegExp,
  open: RegExp | null,
  name: (match: Match) => string,
  value: (match: Match) => string,
  unnamed = false,
): Map<string, PythonValue> {
  const members = new Map<string, PythonValue>();
  for (const match of raw.matchAll(closed)) if (unnamed || name(match) !== "") members.set(name(match), value(match));
  const last = open === null ? null : open.exec(raw.replace(closed, ""));
  if (last !== null && name(last) !== "") members.set(name(last), value(last));
  return members;
}

const QWEN = /<\s*parameter\s*=\s*([^>]*)>([\s\S]*?)(?:<\s*\/\s*parameter\s*>|(?=<\s*parameter\s*=))/g;
const QWEN_OPEN = /<\s*parameter\s*=\s*([^>]+)>([\s\S]*)$/;

/** Reads `<parameter=NAME>value</parameter>`, with a line break around the value. `open`: includes an incomplete last value. */
export function qwenArguments(raw: string, open: boolean): Map<string, PythonValue> {
  return readTags(
    raw,
    QWEN,
    open ? QWEN_OPEN : null,
    (match) => match[1]!,
    (match) => unwrapped(match[2]!),
    true,
  );
}

/** Removes one line break at each end, which the chat template adds. */
function unwrapped(value: string): string {
  const from = value.startsWith("\n") ? 1 : 0;
  const to = value.length - (value.endsWith("\n") && value.length > from ? 1 : 0);
  return value.slice(from, to);
}

const MINIMAX_NAME = `<\\s*parameter\\s+name\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^>\\s]+))\\s*>`;
const MINIMAX = new RegExp(
  `${MINIMAX_NAME}([\\s\\S]*?)(?:<\\s*/\\s*parameter\\s*>|(?=<\\s*parameter\\s+name\\s*=))`,
  "g",
);
const MINIMAX_OPEN = new RegExp(`${MINIMAX_NAME}([\\s\\S]*)$`);

/** Reads `<parameter name="NAME">value</parameter>`. Keeps white space in values. `open`: includes an incomplete last value. */
export function minimaxArguments(raw: string, open: boolean): Map<string, PythonValue> {
  return readTags(
    raw,
    MINIMAX,
    open ? MINIMAX_OPEN : null,
    (match) => (match[1] || match[2] || match[3] || "").trim(),
    (match) => match[4]!,
  );
}

const GLM = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;
const GLM_OPEN = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*)$/;

/** Reads `<arg_key>NAME</arg_key><arg_value>value</arg_value>`. `open`: includes an incomplete last value. */
export function glmArguments(raw: string, open: boolean): Map<string, PythonValue> {
  return readTags(
    raw,
    GLM,
    open ? GLM_OPEN : null,
    (match) => match[1]!.trim(),
    (match) => match[2]!,
    true,
  );
}

const DSML_HEAD = `<｜DSML｜parameter\\s+name="([^"]+)"(?:\\s+string="([^"]*)")?\\s*>`;
const DSML = new RegExp(`${DSML_HEAD}([\\s\\S]*?)(?:</｜DSML｜parameter>|(?=<｜DSML｜parameter\\s+name=))`, "g");
const DSML_OPEN = new RegExp(`${DSML_HEAD}([\\s\\S]*)$`);

/**
 * Reads `<｜DSML｜parameter name="NAME" string="true">value</｜DSML｜parameter>`. Values that are not strings are JSON. `open`:
 * includes an incomplete last value.
 */
export function dsmlArguments(raw: string, open: boolean): Map<string, PythonValue> {
  const members = new Map<string, PythonValue>();
  let end = 0;
  for (const match of raw.matchAll(DSML)) {
    members.set(match[1]!, match[2] === "true" ? match[3]! : (pythonJsonIn(match[3]!) ?? match[3]!));
    end = match.index + match[0].length;
  }
  const rest = open ? DSML_OPEN.exec(raw.slice(end)) : null;
  if (rest === null) return members;
  const value = rest[2] === "true" ? rest[3]! : pythonJsonIn(rest[3]!);
  if (value !== undefined) members.set(rest[1]!, value);
  return members;
}
