/**
 * Prints text for every command. All text passes through this file, so that control characters from a server, a file or a
 * client never reach the terminal. Only `terminal-line.ts` writes cursor codes of our own.
 */
import { printable, printableJson, printableLines } from "../base/printable.ts";

/** Prints lines on standard output. */
export const printText = (text: string): void => console.log(printableLines(text));

/** Prints a value as JSON on standard output. */
export const printJson = (value: unknown, indent?: number): void => console.log(printableJson(value, indent));

/** Prints lines on standard error. */
export const printError = (text: string): void => console.error(printableLines(text));

/** Prints the text as one line on standard error, even if it contains line ends. */
export const printErrorLine = (text: string): void => console.error(printable(text));
