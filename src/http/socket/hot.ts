/** Which routes does the server call by itself? Those that are declared with `HOT`, as Elysia would call them. */
import type { AnyElysia } from "elysia";
import { type Context, HOT_TAG, type HotRoutes } from "../sink.ts";

type Hook = (context: Context) => Response | undefined;
type Handler = (context: Context) => Response | Promise<Response>;

/** By path, with the application's hooks of a request in front of the handler. */
export function hotRoutes(app: AnyElysia): HotRoutes {
  const hooks = (app.event.request ?? []).map(({ fn }) => fn as unknown as Hook);
  const hot = app.routes.filter(
    ({ method, hooks: { detail } }) => method === "POST" && detail?.tags?.includes(HOT_TAG),
  );
  return new Map(hot.map(({ path, handler }) => [path, behind(hooks, handler as Handler)]));
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
