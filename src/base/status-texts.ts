/**
 * Lists the reason phrases of HTTP statuses, like `STATUS_CODES` of `node:http`. Every server needs this table at its start,
 * and nothing else of `node:http`, which takes 5 to 10 ms to load in Bun 1.4.5.
 */
import texts from "./status-texts.json";

export const STATUS_TEXTS: Readonly<Record<number, string>> = texts;
