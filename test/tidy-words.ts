/**
 * The rules of plain English that a program can check: how comments begin, how long their sentences are, which phrases they
 * avoid, and that types are named by nouns. `tidy-words.test.ts` applies the rules.
 */
import { commentsOf } from "../scripts/draw-comments.ts";
import { code, isSource, type Rule } from "./tidy-rules.ts";

const WORDS_MOST = 30;
export const SUBJECT_CHARACTERS_MOST = 72;

/** These files quote the phrases that the rules refuse. */
const RULES_THEMSELVES = /^test\/tidy(-rules|-words)?(\.test)?\.ts$/;
const isWorded = (path: string) => isSource(path) && !RULES_THEMSELVES.test(path);

/** First words without a referent, and words with which a clause replaces a noun. A comment must name its subject. */
const VAGUE_START = /^(?:Of|It|Its|The same|What|Who|Whose|Whoever|Whether|Those|How|Where|Which)\b/;

/** Phrases that a stranger reads twice, each with the plain words. */
const PHRASES: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/\bwhoever\b/i, "a noun: the client, the caller"],
  [/\b(?:that|which|who|it|they) (?:is|are) none\b/i, "the property that holds: is not a list"],
  [/\bnobody's\b/i, "has no owner"],
  [/\b(?:what|who) (?:is|are) (?:there )?no(?:thing)?\b/i, "a noun: the invalid bytes"],
  [/\bas there\b(?! (?:is|are|was|were|may|can|will|would)\b)/i, "like the real server"],
  [/\bbeside\b/i, "next to, during, in addition to"],
];

/** Nouns that say nothing: `HeldThing` is as vague as `Held`. */
const FILLERS = /(?:Thing|Value|Stuff|One)s?$/;
/** Participles without the ending -ed, and those with -ing that were used as names of types. */
const PARTICIPLES = new Set(
  [
    "Asking Begun Born Bound Breaking Broken Built Chosen Done Drawn Driven Fallen Fed Found Given Gone Grown Heard Held",
    "Hidden Holding Kept Known Laid Lasting Left Listening Lost Made Making Meant Met Missing Paid Passing Playing Said",
    "Seen Sending Sent Shown Shut Sought Spent Spoken Stood Taken Thrown Told Torn Understood Woken Won Worn Written",
  ]
    .join(" ")
    .split(" "),
);

/** Reports whether a type's name is a participle, with or without a filler noun. `Feed` and `Speed` are nouns. */
export function isParticiple(name: string): boolean {
  const word = name.replace(FILLERS, "");
  return PARTICIPLES.has(word) || /^[A-Z][a-z]+(?<!e)ed$/.test(word);
}

/** Returns the comment with "code" in place of each piece between backquotes, and without blocks of code. */
const withoutCode = (comment: string) => comment.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`]*`/g, "code");

/** Returns the sentences of a comment, without tables and indented commands. An item of a list is at least one sentence. */
export function sentencesOf(comment: string): string[] {
  const blocks = withoutCode(comment).split(/\n[ \t]*\n/);
  const prose = blocks.filter((block) => !/^(?: {2}|\t|\||$)/.test(block.replace(/^\n+/, "")));
  return prose.flatMap((block) =>
    block
      .split(/\n(?=\s*(?:[-*]|\d+\.|\|) )/)
      .filter((item) => !item.trimStart().startsWith("|"))
      .flatMap((item) =>
        item
          .replace(/\s+/g, " ")
          .trim()
          .split(/(?<=[.!?][)"'”]*) /),
      ),
  );
}

/** Returns the number of words, without signs that stand alone. */
export const wordsIn = (sentence: string) => sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

/** Describes the first fault among the comments of a file. `fault` returns "" for a good comment. */
function firstFault(path: string, text: string, fault: (comment: string) => string): string | undefined {
  for (const { line, text: comment } of commentsOf(path, text)) {
    const why = fault(comment);
    if (why !== "") return `line ${line}: ${why}`;
  }
  return undefined;
}

const quoted = (sentence: string) => `"${sentence.slice(0, 80)}${sentence.length > 80 ? "…" : ""}"`;

export const wordRules: readonly Rule[] = [
  {
    name: "a file opens with a statement about its task",
    applies: isWorded,
    wrong: ({ path, text }) => {
      if (!/^(#!.*\n)?(\/\*|\/\/)/.test(text)) return `no comment: ${text.split("\n")[0]}`;
      const [header] = commentsOf(path, text);
      const first = sentencesOf(header?.text ?? "")[0] ?? "";
      return first.endsWith("?") ? `a question: ${quoted(first)}` : undefined;
    },
  },
  {
    name: "a comment begins with a noun or a verb",
    applies: isWorded,
    wrong: ({ path, text }) => firstFault(path, text, (comment) => (VAGUE_START.test(comment) ? quoted(comment) : "")),
  },
  {
    name: `a sentence of a comment has at most ${WORDS_MOST} words`,
    applies: isWorded,
    wrong: ({ path, text }) =>
      firstFault(path, text, (comment) => {
        const long = sentencesOf(comment).find((sentence) => wordsIn(sentence) > WORDS_MOST);
        return long === undefined ? "" : `${wordsIn(long)} words: ${quoted(long)}`;
      }),
  },
  {
    name: "comments avoid phrases that a stranger reads twice",
    applies: isWorded,
    wrong: ({ path, text }) =>
      firstFault(path, text, (comment) => {
        const words = withoutCode(comment);
        const fault = PHRASES.find(([phrase]) => phrase.test(words));
        return fault === undefined ? "" : `"${fault[0].exec(words)![0]}": write ${fault[1]}`;
      }),
  },
  {
    name: "a type is named by a noun, not by a participle",
    applies: (path) => isWorded(path) && path.endsWith(".ts"),
    wrong: ({ text }) => {
      const declared = code(text).matchAll(
        /^\s*(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|(?:const )?enum) ([A-Z]\w*)/gm,
      );
      return [...declared].map(([, name = ""]) => name).find(isParticiple);
    },
  },
];
