/** Which routes does the server call by itself? Those that are declared with `HOT`, as Elysia would call them. */
import type { AnyElysia } from "elysia";
import { type Context, HOT_TAG, type HotRoutes } from "../http/sink.ts";

type Hook = (context: Context) => Response | undefined;
type Handler = (context: Context) => Response | Promise<Response>;

/** With the application's hooks of a request in front of the handlers. */
export function hotRoutes(app: AnyElysia): HotRoutes {
  const hooks = (app.event.request ?? []).map(({ fn }) => fn as unknown as Hook);
  const byMethod = new Map<string, Map<string, Handler>>();
  for (const { method, path, handler, hooks: declared } of app.routes) {
    if (!declared.detail?.tags?.includes(HOT_TAG)) continue;
    const byPath = byMethod.get(method) ?? new Map<string, Handler>();
    byMethod.set(method, byPath.set(path, behind(hooks, handler as Handler)));
  }
  return { of: (method, target) => byMethod.get(method)?.get(target) };
}

function behind(hooks: readonly Hook[], handler: Handler): Handler {
  return (context) => {
    for (const hook of hooks) {
      const answered = hook(context);
      if (answered !== undefined) return answered;
    }
    return handler(context);
  };
}
