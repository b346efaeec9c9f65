/** Runs the program of a checkout, for `bin/understudy`. `bun src/main.ts` runs the sources themselves, for a debugger. */
import { programEntry } from "./fresh-program.ts";

await import(programEntry());
