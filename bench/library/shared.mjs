/** Tests with a shared server of ours, which is reset. */
import { withServer } from "llm-understudy";
import { ask, tests } from "../ask.mjs";

const act = withServer({ timing: "none" })(async (server) => {
  await server.next("Hi there!");
  await ask(server.url);
});
tests(act);
