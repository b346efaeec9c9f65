import assert from "node:assert";
import { GenericContainer, Wait } from "testcontainers";

const server = await new GenericContainer("llm-understudy:0.2.0")
  .withCommand(["serve", "--host", "0.0.0.0", "--timing", "none", "--served-model-name", "m"])
  .withExposedPorts(8000)
  .withWaitStrategy(Wait.forHttp("/health", 8000))
  .start();
try {
  const url = `http://${server.getHost()}:${server.getMappedPort(8000)}/v1`;
  const answer = await fetch(`${url}/models`);
  const { data } = (await answer.json()) as { data: { id: string }[] };
  assert.deepEqual(
    data.map(({ id }) => id),
    ["m"],
  );
} finally {
  await server.stop();
}
