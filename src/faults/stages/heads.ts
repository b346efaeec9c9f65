/** Reads, changes and writes the HTTP heads of answers. */
import type { AnswerHead } from "../plan/types.ts";

/**
 * Returns the value of a header field, or null if the head lacks the field. `name` must be in lower case. The head's names may
 * have any case.
 */
export function fieldOf({ fields }: AnswerHead, name: string): string | null {
  return fields.find(([field]) => field.toLowerCase() === name)?.[1] ?? null;
}

/** Returns the head with this field, which keeps its position or is added at the end. The value null removes the field. */
export function withField(head: AnswerHead, name: string, value: string | null): AnswerHead {
  const at = head.fields.findIndex(([field]) => field.toLowerCase() === name);
  const fields = [...head.fields];
  if (value === null) {
    if (at >= 0) fields.splice(at, 1);
  } else if (at >= 0) fields[at] = [fields[at]![0], value];
  else fields.push([name, value]);
  return { ...head, fields };
}

/** Returns the HTTP/1.1 bytes of the head, as sent on a socket. */
export function headBytes({ version, status, reason, fields }: AnswerHead): Uint8Array {
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`HTTP/${version} ${status} ${reason}\r\n${lines.join("")}\r\n`, "latin1");
}

/** Parses a head from text in the form that `headBytes` writes. */
export function headIn(text: string): AnswerHead {
  const [statusLine = "", ...lines] = text.slice(0, text.indexOf("\r\n\r\n")).split("\r\n");
  const [, version = "1.1", status = "200", reason = ""] = /^HTTP\/(\S+) (\d+) ?(.*)$/.exec(statusLine) ?? [];
  const fields = lines.map((line): [string, string] => [
    line.slice(0, line.indexOf(":")),
    line.slice(line.indexOf(":") + 2),
  ]);
  return { version, status: Number(status), reason, fields };
}

export const framingOf = (head: AnswerHead): "chunked" | "length" | "none" =>
  fieldOf(head, "transfer-encoding") !== null
    ? "chunked"
    : fieldOf(head, "content-length") !== null
      ? "length"
      : "none";
