/** Writes the files with the server's vocabulary and its answers into `build/`, as a step of the build. */
import { mkdirSync, writeFileSync } from "node:fs";
import ranks from "gpt-tokenizer/bpeRanks/o200k_base";
import { O200KHarmony } from "gpt-tokenizer/encodingParams/o200k_harmony";
import { packAnswers } from "../src/text/answers/answers.ts";
import { BpeEncoder } from "../src/text/tokens/bpe.ts";
import { HARMONY } from "../src/text/tokens/vocabulary.ts";
import { packTable } from "../src/text/tokens/vocabulary-table.ts";
import { answerTables } from "./answer-grammar.ts";

const utf8 = new TextEncoder();
const { specialTokensEncoder, tokenSplitRegex } = O200KHarmony(ranks);
const tokens: Uint8Array[] = ranks.map((token) =>
  typeof token === "string" ? utf8.encode(token) : Uint8Array.from(token),
);
for (const [spelling, id] of specialTokensEncoder ?? []) {
  while (tokens.length <= id) tokens.push(new Uint8Array());
  tokens[id] = utf8.encode(spelling); // id 200018 is listed twice; the later spelling is the one in use
}
const specials = new Set(specialTokensEncoder?.values());

mkdirSync(new URL("../build/", import.meta.url), { recursive: true });
const vocabulary = packTable(tokens, specials, HARMONY.return, tokenSplitRegex.source);
writeFileSync(new URL("../build/vocabulary.bin", import.meta.url), vocabulary);
const bpe = new BpeEncoder(vocabulary);
const answers = packAnswers(answerTables((text) => bpe.encode([text], false)));
writeFileSync(new URL("../build/answers.bin", import.meta.url), answers);
console.log(
  `build/vocabulary.bin: ${tokens.length} tokens, ${specials.size} special, ${vocabulary.length} bytes; build/answers.bin: ${answers.length} bytes`,
);
