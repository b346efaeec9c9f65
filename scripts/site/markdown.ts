/**
 * Settings with which the generator reads the pages as GitHub does: no HTML except line breaks, so that `<NAME>` stays text,
 * and no templates in `{{ … }}`.
 */
import type { MarkdownOptions } from "vitepress";
import { anchorOf } from "../page-links.ts";

type MarkdownIt = Parameters<NonNullable<MarkdownOptions["config"]>>[0];

const BREAK = /^<br ?\/?>/;

/** Reads `<br>`, which cells of tables use. */
function readBreaks(md: MarkdownIt): void {
  md.inline.ruler.before("html_inline", "break", (state, silent) => {
    const found = BREAK.exec(state.src.slice(state.pos, state.pos + 6));
    if (found === null) return false;
    if (!silent) state.push("hardbreak", "br", 0);
    state.pos += found[0].length;
    return true;
  });
}

/** Writes `{{` so that Vue, which renders the page, does not evaluate it. In blocks of code, the generator does so itself. */
function keepBraces(md: MarkdownIt): void {
  for (const name of ["text", "code_inline"] as const) {
    const write = md.renderer.rules[name]!;
    md.renderer.rules[name] = (...args) => write(...args).replaceAll("{{", "&#123;&#123;");
  }
}

/** Lets inline code continue on a new line after the signs inside long names, so that columns of tables need less width. */
function breakNames(md: MarkdownIt): void {
  const write = md.renderer.rules.code_inline!;
  md.renderer.rules.code_inline = (...args) =>
    write(...args).replace(/>(.*)</s, (_, code: string) => `>${code.replace(/([_:.,=/])(?=\w)/g, "$1<wbr>")}<`);
}

/** Gives each cell of a table the name of its column, which style.css shows on narrow screens. */
function nameCells(md: MarkdownIt): void {
  md.core.ruler.push("name-cells", ({ tokens }) => {
    let names: string[] = [];
    let column = 0;
    for (const [at, token] of tokens.entries()) {
      if (token.type === "table_open") names = [];
      if (token.type === "tr_open") column = 0;
      if (token.type === "th_open") names.push(tokens[at + 1]!.content.replaceAll("`", ""));
      if (token.type === "td_open") token.attrSet("data-column", names[column++] ?? "");
    }
  });
}

export const markdown: MarkdownOptions = {
  html: false,
  // Texts name many addresses that are no links.
  linkify: false,
  anchor: { slugify: anchorOf },
  // Languages that the highlighter does not know have the colours of similar ones.
  languageAlias: { caddyfile: "nginx", haproxy: "ini", pbtxt: "proto" },
  config(md) {
    readBreaks(md);
    keepBraces(md);
    breakNames(md);
    nameCells(md);
  },
};
