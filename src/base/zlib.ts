/** Returns the zlib of Node. Only the first compressed body loads it, because loading it with its streams takes 10 ms. */
export const zlib = (): typeof import("node:zlib") => process.getBuiltinModule("node:zlib");
