/** The option that takes names of faults, shared by the commands that apply faults. */
import { isFaultName } from "../faults/ids.ts";
import { one } from "./options/option.ts";

export const faultIds = one<readonly string[]>(
  "ID,…",
  "ids of docs/reference/faults.md with commas between them, as in B*,S2",
  (written) => {
    const all = written.split(",").map((name) => name.trim());
    return all.every(isFaultName) ? all : undefined;
  },
);
