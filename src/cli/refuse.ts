/** Refuses wrong usage of a command: prints one line on standard error and sets exit code 2. */
import { printError } from "./print.ts";
export const USAGE_ERROR = 2;

export const refuser = (command: string) => (why: string) => {
  printError(`understudy ${command}: ${why}`);
  process.exitCode = USAGE_ERROR;
};
