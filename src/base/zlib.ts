/** Node's zlib, loaded by the first compressed body: with the streams behind it, it takes 10 ms of a start. */
export const zlib = (): typeof import("node:zlib") => process.getBuiltinModule("node:zlib");
