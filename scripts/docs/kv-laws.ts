/** Writes the tables of docs/how-to/kv-check.md: the laws of KV events, and the faults with the law that names each. */
import type { KvFault } from "../../src/kv-events/fault-plan.ts";
import { KV_LAWS, type KvLaw, type KvLawId } from "../../src/tools/kv-check/laws.ts";
import { cellText, markdownTable } from "./markdown.ts";

/** Effect of each fault, and the law that it breaks in every run. */
export const FAULT_LAWS: Readonly<Record<KvFault, readonly [law: KvLawId, effect: string]>> = {
  lost: ["K04", "The batch is not sent. A replay has it."],
  doubled: ["K05", "The batch is sent twice."],
  reordered: ["K06", "The batch is sent after the next one."],
  late: ["K12", "The batch, and all after it, are sent `late-ms` later (2000)."],
  "joined-late": ["K09", "`@BATCH` only: batches before it are not sent. With `--from-start`; else it is a note."],
  restarted: ["K07", "Sequences start again at 0, and replays too. The cache stays."],
  unfillable: ["K10", "The batch is not sent, and no replay has it."],
  "replay-cut": ["K11", "A replay ends after `@BATCH` batches, or after 0 to 3, without its end marker."],
  "unknown-event": ["K03", "The batch also has an event `BlockPinned`."],
  "unknown-field": ["K03", "The first event has a field `pinned_until`, or one more element."],
  "wrong-parent": ["K13", "The next stored blocks get a parent that was never stored."],
  "never-stored": ["K14", "The batch also removes a block that was never stored."],
  "second-publisher": ["K08", "From this batch on, each is followed by one of another engine with the same topic."],
};

export function kvTables(): Readonly<Record<string, string>> {
  const laws = Object.entries<KvLaw>(KV_LAWS).map(([id, { sentence, severity, unless = "" }]) =>
    [id, sentence, unless, severity].map(cellText),
  );
  const faults = Object.entries(FAULT_LAWS).map(([name, [law, effect]]) => [`\`${name}\``, effect, law]);
  return {
    laws: markdownTable([["", "Law", "Conditions and exceptions", ""], ...laws]),
    faults: markdownTable([["Fault", "Effect", "Named by"], ...faults]),
  };
}
