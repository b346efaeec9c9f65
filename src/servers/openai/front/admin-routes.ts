/**
 * Who may change a server that runs? Whoever has the key of `--admin-key`: `GET /admin/config` says what holds, `POST`
 * changes some of it, all or nothing. Without the option the path is unknown. Ours; vLLM has nothing like it.
 */
import { isSameDigest, sha256 } from "../../../base/digest.ts";
import { jsonObjectIn } from "../../../base/json-object.ts";
import type { AdminOptions } from "../../../kernel/live-settings.ts";
import { routes } from "../../../wire/http/routes.ts";
import { badRequest, unauthorized } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type Context, Http } from "./http.ts";

const PATH = "/admin/config";
/** The paths and their methods, so that other methods there get 405. */
export const ADMIN_METHODS: Readonly<Record<string, readonly string[]>> = { [PATH]: ["GET", "POST"] };
/** Characters of a body. */
const LENGTH_MOST = 65_536;

/** Makes the routes of the administrator. */
export function adminRoutes(kernel: OpenAiKernel, admin: AdminOptions) {
  const http = new Http(kernel, {});
  const known = sha256(admin.key);
  // One change after the other: each begins with what the last one left.
  let before: Promise<unknown> = Promise.resolve();
  const stranger = (context: Context): Response | undefined => {
    const [, key = ""] = /^bearer (.*)$/i.exec(context.request.headers.get("authorization") ?? "") ?? [];
    return isSameDigest(sha256(key), known) ? undefined : http.error(context, unauthorized);
  };
  const shown = (context: Context) => http.json(context, JSON.stringify(admin.read()));
  return routes({
    [`GET ${PATH}`]: (context) => stranger(context) ?? shown(context),
    [`POST ${PATH}`]: async (context) => {
      const refusal = stranger(context);
      if (refusal) return refusal;
      const text = await context.request.text();
      const changes = text.length > LENGTH_MOST ? null : jsonObjectIn(text);
      if (changes === null)
        return http.error(context, badRequest(`takes a JSON object of at most ${LENGTH_MOST} characters`));
      const done = before.then(() => admin.change(changes));
      before = done.catch(() => {});
      const wrong = await done;
      return wrong === null ? shown(context) : http.error(context, badRequest(wrong.message, wrong.key));
    },
  });
}
