/** Makes the elements of the demo: sliders, buttons, numbers and the canvases of the picture. */
import { type Settings, SLIDER_NAMES, SLIDERS, type Slider, type SliderName } from "../demo/settings.ts";

/** Makes an element with attributes and children. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Makes the sliders. `changed` is called with each new value. */
export function slidersOf(settings: Settings, changed: (name: SliderName, value: number) => void): HTMLElement {
  const sliders = SLIDER_NAMES.map((name) => {
    const { label, unit, least, most, step, about }: Slider = SLIDERS[name];
    const [value, input] = [element("output"), element("input", { type: "range", name })];
    Object.assign(input, { min: least, max: most, step, value: settings[name] });
    const show = () =>
      value.replaceChildren(Number(input.value).toLocaleString("en"), element("small", {}, ` ${unit}`));
    input.addEventListener("input", () => {
      show();
      changed(name, Number(input.value));
    });
    show();
    return element("label", { class: "slider", title: about }, element("span", {}, label), value, input);
  });
  return element("div", { class: "sliders" }, ...sliders);
}

/** The numbers below the sliders, by their names. */
export const TILES = {
  running: "Running",
  waiting: "Waiting",
  blocks: "KV blocks",
  tokens: "Tokens/s",
  ttft: "TTFT, median",
  itl: "Between tokens",
  preemptions: "Preemptions",
  turnedAway: "Turned away",
} as const;
export type TileName = keyof typeof TILES;

/** Makes the numbers. Returns their element, and a function that shows values. */
export function tilesOf(): { readonly tiles: HTMLElement; show(values: Readonly<Record<TileName, string>>): void } {
  const names = Object.keys(TILES) as TileName[];
  const places = names.map((name) => [name, element("dd", {}, "0")] as const);
  const tiles = places.map(([name, place]) => element("div", {}, element("dt", {}, TILES[name]), place));
  return {
    tiles: element("dl", { class: "tiles" }, ...tiles),
    show(values) {
      for (const [name, place] of places) if (place.textContent !== values[name]) place.textContent = values[name];
    },
  };
}

/** Names and explanations of the pictures. A colour in front of a word is a class of style.css. */
const PICTURES = {
  queue: [
    "Waiting",
    [
      ["waiting", "new"],
      ["preempted", "preempted"],
    ],
  ],
  running: ["Running: prompt and answer", []],
  blocks: ["KV blocks, by request", []],
  requests: [
    "Requests",
    [
      ["running", "running"],
      ["waiting", "waiting"],
    ],
  ],
  tokens: [
    "Tokens per step",
    [
      ["prompt", "prompts"],
      ["answer", "answers"],
    ],
  ],
  pool: ["KV blocks in use", [["preempted", "preemption"]]],
} as const;
export type PictureName = keyof typeof PICTURES;

/** Makes a picture with its name and its key. */
export function pictureOf(name: PictureName): { readonly figure: HTMLElement; readonly canvas: HTMLCanvasElement } {
  const [title, key] = PICTURES[name];
  const canvas = element("canvas", { role: "img", "aria-label": title });
  const keys = key.map(([color, word]) => element("span", { class: `key ${color}` }, word));
  return { figure: element("figure", { class: name }, element("figcaption", {}, title, ...keys), canvas), canvas };
}
