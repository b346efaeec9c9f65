/** The option of both kinds of servers that limits the `Host` of requests. */
import { isHostPattern } from "../../wire/http/host-check.ts";
import type { Option } from "./option.ts";

export const allowedHosts: Option<readonly string[]> & { readonly default: string; readonly about: string } = {
  arity: "list",
  accepts: "one or more host names, as example.com, *.example.com, 127.0.0.1 or *",
  metavar: "HOST",
  read: (texts) => (texts.every(isHostPattern) ? texts : undefined),
  default: "*: any",
  about:
    "Answer 400 to requests whose Host header names another host, on every HTTP port, against DNS rebinding: docs/admin.md.",
};
