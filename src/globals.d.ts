// For files that both compilers read (assembly/layout.ts), and for files that Bun embeds by path.
declare type i32 = number;
declare module "*.wasm" {
  const path: string;
  export default path;
}
declare module "*.bin" {
  const path: string;
  export default path;
}
declare module "undici/lib/llhttp/llhttp-wasm.js" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}
