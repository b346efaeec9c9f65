/** Theme of the site: VitePress's own theme with the demo on the first page. */
import { withBase } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { defineComponent, h, onBeforeUnmount, onMounted, ref } from "vue";
import "./style.css";

interface Demo {
  /** Shows the demo in `place`. `core`: address of core.wasm. Returns a function that ends it. */
  start(place: HTMLElement, core: string): Promise<() => void>;
}

/** The place of the demo, whose script is loaded in the browser. */
const EngineDemo = defineComponent(() => {
  const place = ref<HTMLElement>();
  let stop: Promise<() => void> | undefined;
  onMounted(async () => {
    const script = withBase("/demo/demo.js");
    const demo: Demo = await import(/* @vite-ignore */ script);
    stop = demo.start(place.value!, withBase("/demo/core.wasm"));
  });
  onBeforeUnmount(async () => (await stop)?.());
  return () => h("div", { ref: place, class: "engine-demo" });
});

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { "home-hero-after": () => h(EngineDemo) }),
};
