/** Compiles the native code that sends the plain tokens of a step with one call, and tries whether it works here. */
import { LANE_MACROS, type NativeWrite } from "../../engine/interface/lanes.ts";

type NativeLanes = NativeWrite | { readonly refused: string };

const SOURCE = new URL("./lanes.c", import.meta.url);

let tried: Promise<NativeLanes> | null = null;

/** Returns the native call, or the reason why it is not available. Tried once per process. */
export function nativeLanes(): Promise<NativeLanes> {
  tried ??= tryLanes();
  return tried;
}

/** Compiles and tries `source`, a C file. `platform`: as Node names it. */
export async function tryLanes(platform: string = process.platform, source = SOURCE): Promise<NativeLanes> {
  // The C code contains Linux's values of flags and its name for errno.
  if (platform !== "linux") return { refused: `no native code for ${platform}` };
  try {
    const { cc } = await import("bun:ffi");
    const { symbols } = cc({
      source,
      define: LANE_MACROS,
      symbols: {
        write_rows: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
        try_send: { args: [], returns: "i32" },
      },
    });
    const errno = symbols.try_send();
    return errno === 0 ? symbols.write_rows : { refused: `send fails with errno ${errno}` };
  } catch (error) {
    const [line] = String(error instanceof Error ? error.message : error).split("\n");
    return { refused: `bun:ffi cannot compile lanes.c (${line})` };
  }
}
