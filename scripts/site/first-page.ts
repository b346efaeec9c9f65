/** Makes the first page: the opening of the README, the demo, which the theme adds, and the four kinds of docs. */
import { stringify } from "yaml";

/** The four kinds of docs, each with the job of its pages and its first page. */
const KINDS = [
  ["Tutorials", "Learn it step by step.", "/docs/tutorial/first-stream"],
  ["How-to", "Do one job.", "/docs/how-to/fixtures"],
  ["Reference", "Look it up.", "/docs/reference/options"],
  ["Explanation", "Understand why.", "/docs/explanation/scheduling"],
] as const;

/** Returns the Markdown of the first page. `readme`: the README, whose first paragraph introduces the project. */
export function firstPage(readme: string): string {
  const opening = readme.split("\n\n")[1]!;
  const end = opening.indexOf(". ") + 1;
  const matter = {
    layout: "home",
    hero: {
      name: "Understudy",
      text: opening.slice(0, end),
      tagline: opening.slice(end + 1),
      actions: [
        { text: "Start", link: "/readme" },
        { text: "First stream", link: "/docs/tutorial/first-stream", theme: "alt" },
      ],
    },
    features: KINDS.map(([title, details, link]) => ({ title, details, link })),
  };
  return `---\n${stringify(matter, { lineWidth: 0 })}---\n`;
}
