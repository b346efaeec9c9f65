/** Checks that the text of the docs that is made from tables of the code is up to date. `npx bun run docs` writes it. */
import { expect, test } from "bun:test";
import { FILES, PAGES, pageTexts, SLOW_PAGE } from "../../scripts/docs/pages.ts";

// test/engine/timing/presets.sim.test.ts checks the slow page, with a sample of its benchmarks.
test.each([...Object.keys(PAGES), ...Object.keys(FILES)].filter((path) => path !== SLOW_PAGE))(
  "%s is up to date",
  (path) => {
    const { old, now } = pageTexts(path);
    expect(now).toBe(old);
  },
);
