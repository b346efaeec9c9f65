/** Serves `GET /health` with Elysia and nothing else, on the port after `--port`: the control of `bench start`. */
import { Elysia } from "elysia";

const port = Number(process.argv[process.argv.indexOf("--port") + 1]);
new Elysia().get("/health", () => "").listen({ hostname: "127.0.0.1", port });
