/** Changes one value of what each step expects (a text, number, range or name), to test that wrong answers are noticed. */
import type { Dict, Json, Scenario } from "./recordings.ts";

/** Returns the scenario with a changed expectation for each answered step, or for one scrape. The seed draws the value. */
export function mutated(scenario: Scenario, seed: number): Scenario {
  const judged = scenario.steps.flatMap(({ expect }, at) => (expect === undefined ? [] : [at]));
  const chosen = scenario.bySteps ? judged : [judged[draw(scenario.name, seed, judged.length)]!];
  const steps = scenario.steps.map((step, at) => {
    if (!chosen.includes(at)) return step;
    const places = placesOf(step.expect!, []);
    const place = places[draw(`${scenario.name}#${at}`, seed, places.length)];
    // An expected empty answer has no value to change, so a member is added.
    const expect = place === undefined ? { ...(step.expect as Dict), nothing: "~" } : changed(step.expect!, place);
    return { ...step, expect };
  });
  return { ...scenario, steps, pages: {} };
}

const draw = (text: string, seed: number, below: number) =>
  below === 0 ? 0 : Number(Bun.hash.wyhash(text, BigInt(seed)) % BigInt(below));

type Place = readonly (string | number)[];

/** Returns the paths of all values that are compared. */
function placesOf(value: Json, path: Place): Place[] {
  if (typeof value !== "object" || value === null) return [path];
  if (Array.isArray(value)) return value.flatMap((one, at) => placesOf(one, [...path, at]));
  const dict = value as Dict;
  if ("recorded" in dict) return dict.any === true || typeof dict.recorded !== "number" ? [] : [path];
  return Object.entries(dict).flatMap(([key, one]) => placesOf(one, [...path, key]));
}

function changed(value: Json, [key, ...rest]: Place): Json {
  if (key === undefined) return other(value);
  if (Array.isArray(value)) return value.map((one, at) => (at === key ? changed(one, rest) : one));
  return { ...(value as Dict), [key]: changed((value as Dict)[key]!, rest) };
}

function other(value: Json): Json {
  if (typeof value === "string") return `${value}~`;
  if (typeof value === "number") return value + 1;
  if (typeof value === "boolean") return !value;
  // No value fits this range.
  return { ge: 1e15, le: 1e16, recorded: 1e15 };
}
