/**
 * Prints for every command. All text passes here, so that text from a server, a file or a client never reaches the
 * terminal with its control characters. Our own cursor codes are written by `terminal-line.ts` alone.
 */
import { printable, printableJson, printableLines } from "../base/printable.ts";

/** Prints lines on standard output. */
export const printText = (text: string): void => console.log(printableLines(text));

/** Prints a value as JSON on standard output. */
export const printJson = (value: unknown, indent?: number): void => console.log(printableJson(value, indent));

/** Prints lines on standard error. */
export const printError = (text: string): void => console.error(printableLines(text));

/** Prints one line on standard error, whatever line ends the text has. */
export const printErrorLine = (text: string): void => console.error(printable(text));
