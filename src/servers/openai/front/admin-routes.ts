/**
 * Serves `/admin/config`: GET returns the settings that can change while the server runs, POST changes some of them, all or none.
 * Requests need the key of `--admin-key`. Without that option the path is unknown. Ours: vLLM has no such route.
 */
import { isSameDigest, sha256 } from "../../../base/digest.ts";
import { jsonObjectIn } from "../../../base/json-object.ts";
import type { AdminOptions } from "../../../kernel/live-settings.ts";
import { routes } from "../../../wire/http/routes.ts";
import { badRequest, unauthorized } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type Context, Http } from "./http.ts";

const PATH = "/admin/config";
/** Methods by path. Other methods on these paths get 405. */
export const ADMIN_METHODS: Readonly<Record<string, readonly string[]>> = { [PATH]: ["GET", "POST"] };
/** Most characters of a body. */
const LENGTH_MOST = 65_536;

/** Returns the routes. `admin` reads and changes the settings. */
export function adminRoutes(kernel: OpenAiKernel, admin: AdminOptions) {
  const http = new Http(kernel, {});
  const keyDigest = sha256(admin.key);
  // Changes run one after the other, because each starts from the settings that the last one left.
  let lastChange: Promise<unknown> = Promise.resolve();
  /** Returns the refusal of a request without the key, or undefined. */
  const refusalOf = (context: Context): Response | undefined => {
    const [, key = ""] = /^bearer (.*)$/i.exec(context.request.headers.get("authorization") ?? "") ?? [];
    return isSameDigest(sha256(key), keyDigest) ? undefined : http.error(context, unauthorized);
  };
  const settings = (context: Context) => http.json(context, JSON.stringify(admin.read()));
  return routes({
    [`GET ${PATH}`]: (context) => refusalOf(context) ?? settings(context),
    [`POST ${PATH}`]: async (context) => {
      const refusal = refusalOf(context);
      if (refusal) return refusal;
      const text = await context.request.text();
      const changes = text.length > LENGTH_MOST ? null : jsonObjectIn(text);
      if (changes === null)
        return http.error(context, badRequest(`the body must be a JSON object of at most ${LENGTH_MOST} characters`));
      const change = lastChange.then(() => admin.change(changes));
      lastChange = change.catch(() => {});
      const wrong = await change;
      return wrong === null ? settings(context) : http.error(context, badRequest(wrong.message, wrong.key));
    },
  });
}
