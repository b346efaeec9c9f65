/** Exports the public interface of the check of KV events. Runs in Bun and Node. */

export { KvChecker, type KvCheckOptions, type KvFrames, type KvReport } from "./checker.ts";
export type { HashFacts } from "./hash-facts.ts";
export { KV_LAWS, type KvLaw, type KvLawId } from "./laws.ts";
