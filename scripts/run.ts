/** Runs the program of a checkout, for `bin/understudy`. For a debugger, `bun src/main.ts` runs the sources without a bundle. */
import { programEntry } from "./fresh-program.ts";

await import(programEntry());
