/** Finds the `HttpFront` that takes the answer: the server, or `asResponses` if a program called `app.handle(request)`. */
import { asResponses } from "./as-response.ts";
import type { Context, HttpFront } from "./sink.ts";

/** A request from a socket is never a web `Request`. */
export const frontOf = ({ request, server }: Context): HttpFront =>
  request instanceof Request ? asResponses : server!;
