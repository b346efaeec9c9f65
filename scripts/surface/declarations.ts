/**
 * Reads declaration files (`.d.ts`) of the published packages, and returns each public type, function and member with the text
 * of its declaration. No compiler is needed: the files have no code, only declarations in the form in which TypeScript prints
 * them.
 */
import { dirname, join } from "node:path";

interface Declaration {
  readonly kind: string;
  readonly text: string;
}

interface DeclarationFile {
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** Names that the file exports. Each has the file that declares it, and its name in that file. */
  readonly exports: ReadonlyMap<string, Reference>;
  /** Names that the file imports, in the same form as `exports`. */
  readonly imports: ReadonlyMap<string, Reference>;
  /** Paths of files whose names are all exported, by `export * from`. */
  readonly all: readonly string[];
}

interface Reference {
  readonly path: string;
  readonly name: string;
}

/** Removes comments. Text in quotes stays. */
const withoutComments = (text: string): string =>
  text.replace(
    /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_, quoted = "") => quoted,
  );

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/**
 * Splits a text after each character for which `isEnd` returns true, except in brackets and quotes. `part`: the text since the
 * last end.
 */
function splitAt(text: string, isEnd: (char: string, part: string) => boolean): string[] {
  const parts: string[] = [];
  let [depth, start, quote] = [0, 0, ""];
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (quote !== "") {
      if (char === "\\") at++;
      else if (char === quote) quote = "";
      continue;
    }
    if (`"'\``.includes(char)) quote = char;
    else if ("({[".includes(char)) depth++;
    else if (")}]".includes(char)) depth--;
    if (depth > 0 || !isEnd(char, text.slice(start, at + 1))) continue;
    parts.push(text.slice(start, at + 1));
    start = at + 1;
  }
  parts.push(text.slice(start));
  return parts.map(oneLine).filter(Boolean);
}

const BLOCK = /^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:interface|class|enum|namespace)\s/;
const DECLARED =
  /^(?:export )?(?:declare )?(?:abstract )?(interface|class|type|const|let|function|enum|namespace) ([\w$]+)/;

function parse(path: string, text: string): DeclarationFile {
  const declarations = new Map<string, Declaration>();
  const exports = new Map<string, Reference>();
  const imports = new Map<string, Reference>();
  const all: string[] = [];
  const target = (specifier: string) => join(dirname(path), specifier).replace(/\.js$/, ".d.ts");
  const isEnd = (char: string, part: string) => char === ";" || (char === "}" && BLOCK.test(part));
  for (const statement of splitAt(withoutComments(text), isEnd)) {
    const list = /^(import|export)(?: type)? \{(.*)\}(?: from ["'](.*)["'])?;$/.exec(statement);
    const [, star] = /^export \* from ["'](.*)["'];$/.exec(statement) ?? [];
    const [, kind, name] = DECLARED.exec(statement) ?? [];
    if (star !== undefined) all.push(target(star));
    if (list) {
      const [, word, names, from] = list;
      for (const item of names!
        .split(",")
        .map((part) => part.trim())
        .filter(Boolean)) {
        const [theirs = "", ours = theirs] = item.replace(/^type /, "").split(" as ");
        const reference = { path: from === undefined ? path : target(from), name: theirs };
        (word === "import" ? imports : exports).set(ours, reference);
      }
    }
    if (kind === undefined || name === undefined) continue;
    const other = declarations.get(name);
    const plain = statement.replace(/^(export )?(declare )?/, "").replace(/;$/, "");
    // A function with several signatures has a declaration for each.
    declarations.set(name, { kind, text: other === undefined ? plain : `${other.text} & ${plain}` });
    if (statement.startsWith("export")) exports.set(name, { path, name });
  }
  return { declarations, exports, imports, all };
}

const MEMBER = /^(?:(?:readonly|static|abstract|protected|get|set) )*(\[[^\]]*\]|[\w$]+|"[^"]*"|(?=[(<]))/;

/** Returns the declaration as one row, or as a row for the head and a row for each member. */
function* rowsOf(name: string, { kind, text }: Declaration): Generator<[name: string, meaning: string]> {
  const open = text.indexOf("{");
  if (!["interface", "class", "enum"].includes(kind)) return yield [name, text.slice(text.indexOf(name) + name.length)];
  yield [name, oneLine(`${kind} ${text.slice(text.indexOf(name) + name.length, open)}`)];
  const members = new Map<string, string>();
  const end = kind === "enum" ? "," : ";";
  for (const member of splitAt(text.slice(open + 1, text.lastIndexOf("}")), (char) => char === end)) {
    const [head, word = ""] = MEMBER.exec(member) ?? [];
    if (head === undefined || member.startsWith("private ") || member.startsWith("#")) continue;
    const meaning = member.replace(/[;,]$/, "");
    members.set(word, members.has(word) ? `${members.get(word)} & ${meaning}` : meaning);
  }
  for (const [member, meaning] of members) yield [`${name}.${member || "()"}`, meaning];
}

/**
 * Returns the rows of everything that the entries export, by name. Types that an exported declaration names are included, also
 * if they are not exported. `read`: returns the text of a file.
 */
export function publicRows(entries: readonly string[], read: (path: string) => string): Map<string, string> {
  const files = new Map<string, DeclarationFile>();
  const fileOf = (path: string): DeclarationFile => {
    if (!files.has(path)) files.set(path, parse(path, read(path)));
    return files.get(path)!;
  };
  /** Returns the place of the declaration of an exported name. */
  const found = ({ path, name }: Reference): Reference | undefined => {
    const { declarations, exports, imports, all } = fileOf(path);
    if (declarations.has(name)) return { path, name };
    const next = exports.get(name) ?? imports.get(name);
    if (next !== undefined && (next.path !== path || next.name !== name)) return found(next);
    if (imports.has(name)) return found(imports.get(name)!);
    return all.map((other) => found({ path: other, name })).find((place) => place !== undefined);
  };
  const namesOf = (path: string): string[] => {
    const { exports, all } = fileOf(path);
    return [...exports.keys(), ...all.flatMap(namesOf)];
  };
  const rows = new Map<string, string>();
  const seen = new Set<string>();
  const take = (reference: Reference, shown = reference.name): void => {
    const place = found(reference);
    if (place === undefined || seen.has(`${place.path} ${shown}`)) return;
    seen.add(`${place.path} ${shown}`);
    const { declarations } = fileOf(place.path);
    const declaration = declarations.get(place.name)!;
    for (const [name, meaning] of rowsOf(place.name, declaration)) {
      const key = shown + name.slice(place.name.length);
      rows.set(key, oneLine(meaning.replace(/import\("[^"]*"\)\./g, "")));
    }
    for (const [, from, name] of declaration.text.matchAll(/import\("([^"]*)"\)\.(\w+)/g))
      take({ path: join(dirname(place.path), from!).replace(/\.js$/, ".d.ts"), name: name! });
    for (const [word] of declaration.text.matchAll(/\b[A-Z]\w*\b/g)) take({ path: place.path, name: word });
  };
  for (const entry of entries) for (const name of namesOf(entry)) take({ path: entry, name }, name);
  return rows;
}
