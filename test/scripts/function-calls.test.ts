/** Tests that functions report their calls, and that code which reports them does the same as before. */
import { expect, test } from "bun:test";
import { reporting } from "../../scripts/function-calls.ts";

const transpiler = new Bun.Transpiler({ loader: "ts", target: "bun" });

/** Runs the body of a function. Returns its result, and how many calls were reported. */
function run(body: string): { result: unknown; calls: number } {
  let calls = 0;
  const code = reporting(transpiler.transformSync(body), "called()").replaceAll("export default", "return");
  return { result: new Function("called", code)(() => calls++), calls };
}

test.each<[name: string, body: string, result: unknown, calls: number]>([
  ["a function", "function f(a: number) { return a; } export default f(2);", 2, 1],
  ["an arrow with a block", "const f = (a: number) => { return a; }; export default f(2);", 2, 1],
  ["an arrow with an expression", "const f = (a: number) => a + 1, b = 5; export default f(2) + b;", 8, 1],
  ["an arrow that returns an arrow", "const f = (a: number) => (b: number) => a - b; export default f(3)(2);", 1, 2],
  ["an arrow that returns an object", "const f = (a: number) => ({ a }); export default f(3).a;", 3, 1],
  ["arrows in a condition", "const f = 1 > 2 ? () => 1 : (a = 4) => a ? 5 : 6; export default f();", 5, 1],
  [
    "a method and a getter",
    "class A { get b() { return 1; } c() { return 2; } } export default new A().b + new A().c();",
    3,
    2,
  ],
  ["a method of an object", "const o = { f(a: string) { return a; } }; export default o.f('x');", "x", 1],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the code holds a template.
  ["an arrow in a template", "export default `${[1, 2].map((x) => `${x}}`)} /'`;", "1},2} /'", 2],
  ["a regular expression with a brace", "const f = () => /[)/{]=>{/.test('a'); export default f();", false, 1],
  ["no function", "let a = 0; for (const b of [1, 2]) { if (b) { a += b; } } export default a / 3 / 1;", 1, 0],
])("%s", (_, body, result, calls) => {
  expect(run(body)).toEqual({ result, calls });
});
