/**
 * Defines the sentences that answers consist of. Only the build reads this file: `pack-vocabulary.ts` makes the tables of
 * `src/text/answers/answers.ts` from it.
 *
 * Every template is one paragraph. It starts with a capital without a space and ends with a full stop and an empty line. So any
 * template may follow any other, and the start of an answer reads well. Each word is one token, and encoding the text gives the
 * same tokens again. So a conversation that quotes an answer finds the answer's blocks in the cache.
 */

import { mix } from "../src/base/random.ts";
import { type AnswerTables, BLOCK_TOKENS } from "../src/text/answers/answers.ts";

/** Words of each category, separated by spaces. In an answer, words get a leading space, punctuation does not. */
const WORDS: Readonly<Record<string, string>> = {
  // Sentences start with a word of one of these three categories: a determiner, an adverb before a comma, or a quantity.
  D: "The This That Each Every Another Our One Any",
  A: "However Therefore Sometimes Often Still Instead Later Today Meanwhile Finally Overall Indeed Then Here",
  Q: "Many Some Several Most Few Two Three These Those",
  d: "the this that each every another our one any",
  q: "many some several most few two three these those",
  a: "small large simple careful clear common quiet early bright steady local modern broad useful strong gentle open slow fresh new old short long warm small final direct shared public single rich plain",
  n: "system process method result pattern model record signal river garden bridge station market letter teacher student village machine engine window project report question answer story road city forest network team plan design library journey season lesson harbor path tool service",
  p: "systems methods results patterns models records signals rivers gardens bridges stations markets letters teachers students villages machines windows projects reports questions answers stories roads cities forests networks teams plans lessons paths tools services people ideas changes",
  v: "shows keeps follows supports changes shapes reaches improves holds brings requires explains describes reveals measures reduces controls protects connects serves joins covers guides",
  V: "show keep follow support change shape reach improve hold bring require explain describe reveal measure reduce control protect connect serve join cover guide",
  y: "showed kept followed supported changed shaped reached improved held brought required explained described revealed measured reduced controlled protected connected served joined covered",
  m: "can may will should must might could would",
  e: "often usually always rarely slowly quickly clearly also still sometimes quietly mostly",
  c: "and but while because so since although",
  r: "that which",
  w: "with near behind across through under over from after before beyond around against without inside along beside toward",
  l: "is was remains seems becomes looks feels",
  t: "needs tends seems helps continues begins serves",
  s: "symbol sign mark",
};
/** Categories that have a single token each, which gets no leading space. */
const FIXED: Readonly<Record<string, string>> = { ",": ",", ".": ".", "¶": ".\n\n", "&": " and", ">": " to" };
const OPENERS = "DAQ";
/**
 * Characters that consist of several tokens each. With them, clients receive code points that are split between chunks. One
 * template in sixteen has such a character.
 */
const RARE = ["🦔", "鬱", "🌿", "驫"] as const;
const BEFORE_RARE = "Dnvds";
const TEMPLATES = 64;

/** Sentences as lists of categories, without the final full stop. The first category is an opener: a category of first words. */
const SENTENCES = (
  "Dnvdn Danvdn Dnvdan Dnvdnwdn Danvdnwdn DnmVdan DnmVqp Dnwdnla Dnla Danla&a Dnrvdnla Dnevdn,cdnvdan " +
  "Dant>Vdan,cqpVdn Dnydnwdn,cdnydan Dnvp,p,&p Dnydn,cqpydnwdn DnmVdnwdan Dnwdanydn Dnt>Vdn DnmVqapwdn " +
  "A,dnvdn A,danmVp A,danmVpwdn A,qpydnwdn A,dnla,cdnmVdn A,dnt>Vdan A,dnrvdnyqap " +
  "QpVdn QapVdnwdn QpmVdn,cdnlea Qpydanwdn QpVdn,&qpVdan QpeVdn QpwdnmVp QapeVdnwdan"
).split(" ");

interface Category {
  readonly name: string;
  readonly ids: readonly number[];
}

/**
 * Returns the templates of paragraphs, and the words of each category as token ids of `encode`. Throws if a word is more than one
 * token, or if a character of `RARE` is a single one.
 */
export function answerTables(encode: (text: string) => ArrayLike<number>): AnswerTables {
  const categories = categoriesOf(encode);
  const numbers = new Map(categories.map(({ name }, number) => [name, number]));
  const templates = new Uint8Array(TEMPLATES * BLOCK_TOKENS);
  for (let template = 0; template < TEMPLATES; template++) {
    const rare = template % 16 === 15 ? template >> 4 : -1;
    const names = templateOf(template, rare, rare < 0 ? 0 : numberOfParts(categories, rare));
    templates.set(
      names.map((name) => numbers.get(name)!),
      template * BLOCK_TOKENS,
    );
  }
  const categoryStart = new Int32Array(categories.length + 1);
  categories.forEach(({ ids }, number) => {
    categoryStart[number + 1] = categoryStart[number]! + ids.length;
  });
  return { templates, categoryStart, ids: Int32Array.from(categories.flatMap(({ ids }) => ids)) };
}

/**
 * Returns the categories of words. Categories of first words appear twice: with a leading space, for use inside a paragraph,
 * and without it. Each rare character has one category per token.
 */
function categoriesOf(encode: (text: string) => ArrayLike<number>): Category[] {
  const single = (text: string) => {
    const ids = encode(text);
    if (ids.length !== 1) throw new Error(`${JSON.stringify(text)} is ${ids.length} tokens, not one`);
    return ids[0]!;
  };
  const categories: Category[] = [];
  for (const [name, words] of Object.entries(WORDS)) {
    const list = words.split(" ");
    categories.push({ name, ids: list.map((word) => single(` ${word}`)) });
    if (OPENERS.includes(name)) categories.push({ name: `^${name}`, ids: list.map(single) });
  }
  for (const [name, text] of Object.entries(FIXED)) categories.push({ name, ids: [single(text)] });
  RARE.forEach((character, rare) => {
    const parts = Array.from(encode(` ${character}`));
    if (parts.length < 2) throw new Error(`${character} is one token`);
    parts.forEach((id, part) => {
      categories.push({ name: `rare${rare}.${part}`, ids: [id] });
    });
  });
  return categories;
}

function numberOfParts(categories: readonly Category[], rare: number): number {
  return categories.filter(({ name }) => name.startsWith(`rare${rare}.`)).length;
}

/**
 * Returns the categories of sentences that together have exactly `BLOCK_TOKENS` tokens. If `parts` is not 0, the sentences end
 * with a rare character of `parts` tokens.
 */
function templateOf(template: number, rare: number, parts: number): string[] {
  const last =
    parts === 0 ? [] : [...BEFORE_RARE, ...Array.from({ length: parts }, (_, part) => `rare${rare}.${part}`)];
  const room = BLOCK_TOKENS - (last.length === 0 ? 0 : last.length + 1);
  const sentences: (readonly string[])[] = fill(room, template, 0)!.map((sentence) => [...sentence]);
  if (last.length > 0) sentences.push(last);
  // One template in four has a second paragraph break, after its first sentence.
  const breakAfter = template % 4 === 1 ? 0 : -1;
  return sentences.flatMap(([opener, ...rest], at) => {
    const opensParagraph = at === 0 || at - 1 === breakAfter;
    const endsParagraph = at === sentences.length - 1 || at === breakAfter;
    return [opensParagraph ? `^${opener}` : opener!, ...rest, endsParagraph ? "¶" : "."];
  });
}

/**
 * Returns sentences of exactly `room` tokens together, including full stops, in an order drawn from `seed`. Undefined if no
 * sentences have that sum.
 */
function fill(room: number, seed: number, depth: number): string[] | undefined {
  if (room === 0) return [];
  const order = SENTENCES.map((sentence, at) => ({ sentence, key: mix(seed * 64 + depth, at) }));
  order.sort((a, b) => a.key - b.key);
  for (const { sentence } of order) {
    const rest = sentence.length + 1 <= room ? fill(room - sentence.length - 1, seed, depth + 1) : undefined;
    if (rest !== undefined && !rest.includes(sentence)) return [sentence, ...rest];
  }
  return undefined;
}
