// For files that Bun embeds by path.
declare module "*.wasm" {
  const path: string;
  export default path;
}
declare module "*.bin" {
  const path: string;
  export default path;
}
