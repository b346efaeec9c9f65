/** The option that takes names of faults, shared by the commands that apply faults. */
import { isFaultName } from "../faults/ids.ts";
import { commaList } from "./options/option.ts";

export const faultIds = commaList(
  "ID,…",
  "ids of docs/reference/faults.md with commas between them, as in B*,S2",
  isFaultName,
);
