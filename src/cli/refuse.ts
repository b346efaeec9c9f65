/** How does a command say no? One line on standard error, and the exit code of wrong usage. */
import { printError } from "./print.ts";
export const USAGE_ERROR = 2;

export const refuser = (command: string) => (why: string) => {
  printError(`understudy ${command}: ${why}`);
  process.exitCode = USAGE_ERROR;
};
