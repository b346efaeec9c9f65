/** Tests with a server of aimock each. */
import { LLMock } from "@copilotkit/aimock";
import { ask, tests } from "../ask.mjs";

tests(async () => {
  const mock = new LLMock({ port: 0 });
  mock.onMessage("hello", { content: "Hi there!" });
  await mock.start();
  await ask(mock.url);
  await mock.stop();
});
