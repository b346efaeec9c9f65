/** Which routes does the server call by itself? Those that are declared with `HOT`, as Elysia would call them. */
import type { AnyElysia } from "elysia";
import { type Context, HOT_TAG, type HotRoutes } from "../sink.ts";

type Hook = (context: Context) => Response | undefined;
type Handler = (context: Context) => Response | Promise<Response>;

/** With the application's hooks of a request in front of the handlers. */
export function hotRoutes(app: AnyElysia): HotRoutes {
  const hooks = (app.event.request ?? []).map(({ fn }) => fn as unknown as Hook);
  const hot = app.routes.filter(({ hooks: { detail } }) => detail?.tags?.includes(HOT_TAG));
  const ofMethod = (wanted: string) =>
    new Map(
      hot
        .filter(({ method }) => method === wanted)
        .map(({ path, handler }) => [path, behind(hooks, handler as Handler)]),
    );
  const [posts, gets] = [ofMethod("POST"), ofMethod("GET")];
  return {
    of: (method, target) => (method === "POST" ? posts.get(target) : method === "GET" ? gets.get(target) : undefined),
  };
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
