/** Tests with a server of ours each. */
import { createServer } from "llm-understudy";
import { ask, tests } from "../ask.mjs";

tests(async () => {
  const server = await createServer({ timing: "none" }).ready;
  await server.next("Hi there!");
  await ask(server.url);
  await server.close();
});
