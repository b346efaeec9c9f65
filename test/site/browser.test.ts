/**
 * Builds the site and opens every page in a headless Chromium: `npx bun run test site`. A run of all tests leaves this out, and
 * has the checks of pages.test.ts and demo.test.ts.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { repositoryLink } from "../../scripts/page-links.ts";
import { sitePages } from "../../scripts/site/pages.ts";
import { figure, leavesOut, sized } from "../size.ts";
import { Browser, chromium, type Tab } from "./chromium.ts";
import { clippedWords } from "./clipped.ts";
import { buildSite, builtPages, readBuilt, SITE, serveSite } from "./served.ts";

setDefaultTimeout(120_000);

const isWhole = sized("site", { sample: false, whole: true });
const usesChromium = isWhole && !leavesOut("chromium");
const NARROW = [390, 844] as const;
const WIDE = [1280, 1400] as const;
const root = new URL("../../", import.meta.url).pathname;
const pages = isWhole ? sitePages() : [];
const addressOf = (path: string) => path.replace(/\.md$/, ".html");

describe.skipIf(!isWhole)("the built site", () => {
  beforeAll(buildSite);

  test("has every page, and no other", () => {
    expect(builtPages()).toEqual(pages.map(({ path }) => addressOf(path)).sort());
  });

  test("has the licences of the libraries in its scripts", () => {
    for (const name of ["vue", "vitepress", "minisearch"]) expect(readBuilt("NOTICE.txt")).toContain(`\n${name} `);
  });

  test("has no link without a page, heading or file", () => {
    const html = new Map(builtPages().map((path) => [path, readBuilt(path)]));
    const ids = new Map(
      [...html].map(([path, text]) => [path, new Set([...text.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id!))]),
    );
    const wrong = [...html].flatMap(([path, text]) =>
      [...text.matchAll(/\s(?:href|src)="([^"]*)"/g)]
        .map(([, link]) => decodeURIComponent(link!.replaceAll("&amp;", "&")))
        .filter((link) => {
          if (link.startsWith(repositoryLink("")))
            return !existsSync(join(root, link.slice(repositoryLink("").length).replace(/#.*/, "")));
          if (/^[a-z]+:/.test(link)) return false;
          const [file = "", anchor] = link.split("#");
          const to = file === "" ? path : file.startsWith("/") ? file.slice(1) : join(dirname(path), file);
          const target = to === "" || to.endsWith("/") ? `${to}index.html` : to;
          if (!existsSync(join(SITE, target))) return true;
          return anchor !== undefined && anchor !== "" && !ids.get(target)?.has(anchor);
        })
        .map((link) => `${path}: ${link}`),
    );
    expect(wrong).toEqual([]);
    expect(html.get("docs/index.html")).toContain('href="/docs/reference/options.html"');
  });

  test("the demo's script and the core have at most 200 kB, gzipped", () => {
    const bytes = ["demo.js", "core.wasm"].map((name) => Bun.gzipSync(readFileSync(`${SITE}/demo/${name}`)).length);
    const sum = bytes.reduce((all, size) => all + size);
    figure("demo, kB gzipped", Math.round(sum / 100) / 10);
    expect(sum).toBeLessThanOrEqual(200_000);
  });
});

test.skipIf(!usesChromium)("Chromium is on the path", () => {
  const cure = "install it (on Debian: apt-get install chromium), or leave its tests out with --without-chromium";
  expect(chromium, `chromium is missing: ${cure}`).not.toBeNull();
});

describe.skipIf(!usesChromium || chromium === null)("in Chromium", () => {
  let browser: Browser;
  let tab: Tab;
  let server: ReturnType<typeof serveSite>;
  beforeAll(async () => {
    server = serveSite();
    browser = await Browser.start();
    tab = await browser.tab();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.stop(true);
  });

  const open = (path: string) => tab.open(`${server.url}${path}`);
  /** Waits until the expression is true in the page. */
  async function until(expression: string): Promise<void> {
    for (let turn = 0; !(await tab.evaluate<boolean>(expression)); turn++) {
      if (turn === 300) throw new Error(`never true: ${expression}`);
      await Bun.sleep(50);
    }
  }
  const click = (selector: string) => tab.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
  /** Expects no error since the last `open`, and no request to another host since the start. */
  function expectQuiet(): void {
    expect(tab.errors).toEqual([]);
    const isForeign = (url: string) => !url.startsWith(server.url.href) && !url.startsWith("data:");
    expect([...tab.requests].filter(isForeign)).toEqual([]);
  }

  test.each(pages.map(({ path }) => addressOf(path)))(
    "%s has no error, no foreign request, and no clipped word at 390 pixels",
    async (path) => {
      await tab.setSize(...NARROW);
      await open(path);
      expect(await clippedWords(tab)).toEqual([]);
      expectQuiet();
    },
  );

  test.each(
    pages.filter(({ source }) => source !== null).map(({ source, path }) => [addressOf(path), source!] as const),
  )("%s shows the text of %s, as Bun's own reader of Markdown does", async (path, source) => {
    const text = readFileSync(root + source, "utf8").replace(/^ *<!-- \/?[\w-]+ -->$/gm, "");
    const html = Bun.markdown.html(text, { noHtmlBlocks: true, noHtmlSpans: true });
    await open(path);
    const [built, expected] = await tab.evaluate<[string, string]>(`(() => {
        const page = document.querySelector(".vp-doc").cloneNode(true);
        for (const added of page.querySelectorAll(".header-anchor, button.copy, span.lang")) added.remove();
        const expected = new DOMParser().parseFromString(${JSON.stringify(html)}, "text/html").body;
        const textOf = (element) => element.textContent.replace(/\\s|<br ?\\/?>/g, "");
        return [textOf(page), textOf(expected)];
      })()`);
    expect(built.length).toBeGreaterThan(100);
    expect(differenceOf(built, expected)).toEqual([]);
  });

  test("a word is noticed that is clipped by the window or by an element", async () => {
    await tab.setSize(...NARROW);
    await open("readme.html");
    await tab.evaluate(`document.querySelector(".vp-doc").insertAdjacentHTML("beforeend",
      '<p style="white-space: nowrap">${"long ".repeat(30)}</p><p style="width: 20px; overflow: hidden">shortened</p>')`);
    expect((await clippedWords(tab)).length).toBeGreaterThanOrEqual(2);
  });

  const clickAll = (selector: string) =>
    tab.evaluate(`for (const part of document.querySelectorAll(${JSON.stringify(selector)})) part.click()`);

  test("at 390 pixels both menus open with all pages and clip no word", async () => {
    await tab.setSize(...NARROW);
    await open("docs/how-to/fixtures.html");
    await click(".VPNavBarHamburger");
    await until(`document.querySelector(".VPNavScreen")?.innerText.includes("Explanation")`);
    const menu = await tab.evaluate<string>(`document.querySelector(".VPNavScreen").innerText`);
    for (const kind of ["Tutorials", "How-to", "Reference", "Explanation"]) expect(menu).toContain(kind);
    await clickAll(".VPNavScreenMenuGroup .button");
    await until(`document.querySelector(".VPNavScreen").innerText.includes("Limits")`);
    expect(await clippedWords(tab)).toEqual([]);
    await click(".VPNavBarHamburger");
    await click(".VPLocalNav .menu");
    await until(`document.querySelector(".VPSidebar.open")?.getBoundingClientRect().left === 0`);
    await clickAll(".VPSidebarItem.collapsed > .item");
    await until(`document.querySelector(".VPSidebar").innerText.includes("Limits")`);
    expect(await clippedWords(tab)).toEqual([]);
    expectQuiet();
  });

  test("the search finds pages without a request to another host", async () => {
    await tab.setSize(...WIDE);
    await open("docs/index.html");
    await click("#local-search button");
    await until(`document.querySelector(".VPLocalSearchBox input") !== null`);
    await tab.evaluate(`(() => {
      const input = document.querySelector(".VPLocalSearchBox input");
      input.value = "watermark";
      input.dispatchEvent(new Event("input", { bubbles: true }));
    })()`);
    await until(`document.querySelector(".VPLocalSearchBox .result") !== null`);
    expect(await tab.evaluate<string>(`document.querySelector(".VPLocalSearchBox .results").innerText`)).toContain(
      "Options",
    );
    expectQuiet();
  });

  test("dark mode follows the system, and changes page and picture", async () => {
    await tab.setSize(...WIDE);
    const colors = async (scheme: string) => {
      await tab.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
      await open("index.html");
      await until(`Number(document.querySelector(".engine-demo").dataset.open) > 0`);
      return tab.evaluate<string[]>(`(() => {
        const corner = document.querySelector("figure.requests canvas").getContext("2d").getImageData(1, 1, 1, 95).data;
        return [getComputedStyle(document.body).backgroundColor, [...corner].join()];
      })()`);
    };
    const [light, dark] = [await colors("light"), await colors("dark")];
    expect(dark[0]).not.toBe(light[0]!);
    expect(dark[1]).not.toBe(light[1]!);
    await tab.call("Emulation.setEmulatedMedia", { features: [] });
    expectQuiet();
  });

  /** Opens the demo without motion, where it stops when the charts are full, and returns its chart of requests. */
  async function stillPicture(query: string): Promise<string> {
    await tab.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-reduced-motion", value: "reduce" }] });
    await open(`index.html${query}`);
    await until(`document.querySelector(".engine-demo").dataset.filled === "true"`);
    await tab.call("Emulation.setEmulatedMedia", { features: [] });
    return tab.evaluate(`document.querySelector("figure.requests canvas").toDataURL()`);
  }

  test("the address with its seed and sliders decides the picture", async () => {
    await tab.setSize(...WIDE);
    const first = await stillPicture("?seed=5&load=40");
    expect(await stillPicture("?seed=5&load=40")).toBe(first);
    expect(await stillPicture("?seed=6&load=40")).not.toBe(first);
    expect(await stillPicture("?seed=5&load=41")).not.toBe(first);
    expectQuiet();
  });

  test("a slider changes the address and the picture, and so does a new seed", async () => {
    await tab.setSize(...WIDE);
    await open("index.html?seed=5");
    await until(`Number(document.querySelector(".engine-demo").dataset.open) > 0`);
    await tab.evaluate(`(() => {
      const slider = document.querySelector("input[name=blocks]");
      slider.value = "500";
      slider.dispatchEvent(new Event("input"));
    })()`);
    expect(await tab.evaluate<string>("location.search")).toBe("?seed=5&blocks=500");
    await until(`Number(document.querySelector(".engine-demo").dataset.open) > 100`);
    await tab.evaluate(`document.querySelector(".engine-demo .buttons button").click()`);
    expect(await tab.evaluate<string>("location.search")).toMatch(/^\?seed=\d+&blocks=500$/);
    expectQuiet();
  });

  test("the demo's script takes at most 4 ms of CPU a frame at 1,000 open requests, median of 600", async () => {
    await tab.setSize(...WIDE);
    await open("index.html?load=100");
    await until(`Number(document.querySelector(".engine-demo").dataset.open) === 1000`);
    const times: number[] = [];
    const traced = Promise.withResolvers<void>();
    tab.on("Tracing.dataCollected", ({ value }) => {
      for (const { name, args, tdur } of value as TraceEvent[])
        if (name === "FunctionCall" && args.data?.url?.endsWith("/demo/demo.js")) times.push(tdur ?? 0);
    });
    tab.on("Tracing.tracingComplete", () => traced.resolve());
    await tab.call("Tracing.start", { traceConfig: { includedCategories: ["devtools.timeline"] } });
    await tab.evaluate(
      "new Promise((done) => { let left = 620; const next = () => --left ? requestAnimationFrame(next) : done(); next(); })",
    );
    await tab.call("Tracing.end");
    await traced.promise;
    const frames = times.slice(0, 600).sort((a, b) => a - b);
    expect(frames).toHaveLength(600);
    figure("demo, ms of CPU a frame", { p50: frames[300]! / 1000, p99: frames[594]! / 1000 });
    expect(frames[300]!).toBeLessThanOrEqual(4000);
  });
});

/** Event of Chromium's trace. `tdur`: microseconds of the thread's CPU. */
interface TraceEvent {
  readonly name: string;
  readonly args: { readonly data?: { readonly url?: string } };
  readonly tdur?: number;
}

/** Returns the surroundings of the first difference of two texts, or nothing. */
function differenceOf(a: string, b: string): string[] {
  if (a === b) return [];
  let at = 0;
  while (a[at] === b[at]) at++;
  return [a, b].map((text) => text.slice(Math.max(0, at - 40), at + 40));
}
