/** Changes one value of a recording, to check that the comparison notices it. */
import type { Case, Exchange, Response } from "./cases.ts";

/** Returns the case with one exchange changed. The seed selects the change. */
export function mutated(testCase: Case, seed: number): Case {
  const draw = draws(seed ^ hash(testCase.name));
  if (testCase.exchanges) {
    const at = draw(testCase.exchanges.length);
    return { ...testCase, exchanges: testCase.exchanges.map((each, i) => (i === at ? changed(each, draw) : each)) };
  }
  if (testCase.background && draw(2) === 0) return { ...testCase, background: changed(testCase.background, draw) };
  return { ...testCase, ...changed(testCase, draw) };
}

function changed<T extends Exchange>(exchange: T, draw: (below: number) => number): T {
  const { response } = exchange;
  const ways: (() => Partial<Response>)[] = [
    () => ({ status: response.status + 1 }),
    () => ({ status_line: `${response.status_line}!` }),
    () => ({ headers: headersChanged(response.headers, draw) }),
  ];
  const { body, frames } = response;
  if (body) ways.push(...Array(4).fill(() => ({ body: textChanged(body, draw) })));
  if (frames && frames.length > 0) {
    const at = draw(frames.length);
    ways.push(...Array(3).fill(() => ({ frames: frames.map((f, i) => (i === at ? textChanged(f, draw) : f)) })));
    ways.push(() => ({ frames: frames.filter((_, i) => i !== at) }));
    ways.push(() => ({ frames_per_chunk: [...response.frames_per_chunk!, 1] }));
  }
  return { ...exchange, response: { ...response, ...ways[draw(ways.length)]!() } };
}

function headersChanged(headers: Readonly<Record<string, string>>, draw: (below: number) => number) {
  const names = Object.keys(headers);
  const name = names[draw(names.length)]!;
  const { [name]: value, ...others } = headers;
  return draw(2) === 0 ? others : { ...headers, [name]: `${value}x` };
}

/** Replaces one character. */
function textChanged(text: string, draw: (below: number) => number): string {
  const at = draw(text.length);
  return `${text.slice(0, at)}${text[at] === "~" ? "!" : "~"}${text.slice(at + 1)}`;
}

function draws(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function hash(text: string): number {
  let sum = 0x811c9dc5;
  for (const character of text) sum = Math.imul(sum ^ character.charCodeAt(0), 0x01000193);
  return sum;
}
