/** Finds words that a page cuts off, by a script that runs in the page. */
import type { Tab } from "./chromium.ts";

/**
 * The script. A word is cut off if it exceeds the window's width or an element that hides its overflow. `scrolls` selects the
 * elements that may scroll sideways.
 */
const script = (scrolls: string) => `(() => {
  const width = document.documentElement.clientWidth;
  const found = [];
  const boxes = new Map();
  const boxOf = (element) => {
    if (!boxes.has(element)) {
      const { overflowX, overflowY } = getComputedStyle(element);
      const hides = overflowX !== "visible" || overflowY !== "visible";
      const kind = element.matches("${scrolls}") && overflowX === "auto" ? "scrolls" : hides ? "hides" : "shows";
      boxes.set(element, { kind, overflowY, rect: hides ? element.getBoundingClientRect() : null });
    }
    return boxes.get(element);
  };
  const isCut = (rect, element) => {
    for (let box = element; box && box !== document.body; box = box.parentElement) {
      const { kind, overflowY, rect: around } = boxOf(box);
      if (kind === "scrolls") return false;
      if (kind === "shows") continue;
      if (rect.left < around.left - 1 || rect.right > around.right + 1) return true;
      if (overflowY === "hidden" && rect.bottom > around.bottom + 1) return true;
    }
    return rect.left < -1 || rect.right > width + 1;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    const { currentNode: text } = texts;
    const element = text.parentElement;
    if (!text.data.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(".visually-hidden")) continue;
    range.selectNodeContents(text);
    for (const rect of range.getClientRects())
      if (rect.width > 0 && isCut(rect, element)) found.push(text.data.trim().slice(0, 60));
  }
  if (document.documentElement.scrollWidth > width) found.push("the page is wider than the window");
  return [...new Set(found)];
})()`;

/** Output of programs keeps its lines, and scrolls. */
const SCROLLS = ".language-text pre";

/** Returns the words that the page cuts off in its current state. */
export const clippedWords = (tab: Tab): Promise<string[]> => tab.evaluate(script(SCROLLS));
