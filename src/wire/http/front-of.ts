/** Who takes the answer to a request? The server that it came to, or nobody but who called `app.handle(request)`. */
import { asResponses } from "./as-response.ts";
import type { Context, HttpFront } from "./sink.ts";

/** Requests from a socket are none of the platform's own. */
export const frontOf = ({ request, server }: Context): HttpFront =>
  request instanceof Request ? asResponses : (server as HttpFront);
