/**
 * A stand-in for a front end of vLLM, with its flags and log lines. Waits until an engine connects, then opens its HTTP port,
 * which answers with the arguments. SIGTERM ends it with code 7. The variable STUB changes this: `dies` ends it before it is
 * ready, `silent` keeps it from becoming ready, and `python` gives it the log line of the Python server.
 */
const flag = (name: string) => process.argv[process.argv.indexOf(`--${name}`) + 1]!;
const mode = process.env.STUB;

process.on("SIGTERM", () => {
  console.error("the front end ends");
  process.exit(7);
});
if (mode === "dies") {
  console.error("the front end: a wrong model");
  process.exit(3);
}
const joined = Promise.withResolvers<void>();
Bun.listen({
  hostname: flag("data-parallel-address"),
  port: Number(flag("data-parallel-rpc-port")),
  socket: { open: () => joined.resolve(), data: () => {} },
});
await joined.promise;
if (mode !== "silent") {
  Bun.serve({
    hostname: "127.0.0.1",
    port: Number(flag("port")),
    fetch: ({ url }) => {
      const { pathname } = new URL(url);
      if (pathname === "/end") process.exit(9);
      if (pathname === "/v1/models") return Response.json({ data: [{ id: "m" }] });
      if (pathname === "/v1/completions") return Response.json({ usage: { completion_tokens: 8 } });
      return Response.json(process.argv.slice(2));
    },
  });
  const line =
    mode === "python" ? "INFO:     Application startup complete." : "OpenAI server is ready to accept requests";
  // In two pieces, as a pipe may deliver it.
  process.stdout.write(line.slice(0, 20));
  await Bun.sleep(20);
  process.stdout.write(`${line.slice(20)}\n`);
}

export {};
