/** Serves only `GET /health` with Elysia, on the port after `--port`. `bench start` compares our server with this one. */
import { Elysia } from "elysia";

const port = Number(process.argv[process.argv.indexOf("--port") + 1]);
new Elysia().get("/health", () => "").listen({ hostname: "127.0.0.1", port });
