/** Tests with a shared server of aimock, which is reset. */
import { after } from "node:test";
import { LLMock } from "@copilotkit/aimock";
import { ask, tests } from "../ask.mjs";

const mock = new LLMock({ port: 0 });
const started = mock.start();
after(() => mock.stop());
tests(async () => {
  await started;
  mock.onMessage("hello", { content: "Hi there!" });
  await ask(mock.url);
  mock.reset();
});
