/** Refuses wrong usage of a command: prints one line on standard error and sets exit code 2. */
import { printErrorLine } from "./print.ts";
export const USAGE_ERROR = 2;

export const refuser = (command: string) => (why: string) => {
  printErrorLine(`understudy ${command}: ${why}`);
  process.exitCode = USAGE_ERROR;
};
