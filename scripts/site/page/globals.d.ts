/**
 * Types for code that a browser runs: the library's sources also use Bun's members of Worker, and the theme imports a style.
 */
interface Worker {
  ref(): void;
  unref(): void;
}
declare module "*.css";
