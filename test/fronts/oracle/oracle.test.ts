/**
 * The three-way oracle: seeded requests to our own server, and to the real front ends over our engine, with the same tokens cut
 * into steps in eight ways. All must say the same: text, reasoning, calls, finish reason, usage, log probabilities. `explain.ts`
 * has the reason of each difference; any other one fails. `npx bun run test fronts --requests N` sets the size of the whole run.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { inLanes } from "../../../scripts/test-lanes.ts";
import { figure, leavesOut, seed, sized } from "../../size.ts";
import { installPython, isPythonHere } from "../python-front.ts";
import type { FrontName } from "../real-front.ts";
import { isHere, MODEL } from "../vllm-rs.ts";
import { CUTS, cutsOf } from "./cuts.ts";
import { drawRequest } from "./draw.ts";
import { EXPLANATIONS, explained } from "./explain.ts";
import { type OracleParsers, type OracleServer, startServer } from "./three-servers.ts";

setDefaultTimeout(7_200_000);

const REQUESTS = sized("fronts", { sample: 40, whole: Number(process.env.TEST_REQUESTS ?? 10_000) });
/** Requests that are open at the same time. */
const LANES = 16;
/** Each setup gets half of the requests. */
const SETUPS: readonly (OracleParsers & { readonly title: string })[] = [
  { title: "without reasoning", tools: "hermes" },
  { title: "with reasoning", tools: "hermes", reasoning: "qwen3" },
];
const isWhole = sized("fronts", { sample: false, whole: true });
const fronts: readonly FrontName[] = [
  ...(isHere() ? (["vllm-rs"] as const) : []),
  ...(isWhole && !leavesOut("python") ? (["python"] as const) : []),
];

/** An answer of a front end that no explanation covers. */
interface UnexplainedAnswer {
  readonly front: FrontName;
  readonly seed: number;
  readonly cut: string;
  readonly own: string;
  readonly other: string;
}

for (const [at, setup] of SETUPS.entries())
  describe.skipIf(fronts.length === 0)(setup.title, () => {
    let servers: readonly OracleServer[] = [];
    beforeAll(async () => {
      if (fronts.includes("python") && !isPythonHere()) await installPython();
      servers = await Promise.all(["own" as const, ...fronts].map((name) => startServer(name, MODEL, setup)));
    });
    afterAll(() => Promise.all(servers.map((server) => server.stop())));

    test("our server and the front ends say the same, except where explained", async () => {
      const counts: Record<string, number> = {};
      const unexplained: UnexplainedAnswer[] = [];
      let answers = 0;
      const first = seed * 100_000 + at * 50_000;
      const ask = async (number: number) => {
        const request = drawRequest(number);
        for (const [index, script] of cutsOf(request.tokens, number).entries()) {
          const [own, ...others] = await Promise.all(servers.map((server) => server.ask(request, script)));
          answers += others.length;
          for (const [place, other] of others.entries()) {
            const front = fronts[place]!;
            if (JSON.stringify(own) === JSON.stringify(other)) continue;
            const names = "choices" in own! && "choices" in other ? explained(front, own, other, request) : null;
            for (const name of names ?? []) counts[`${front}: ${name}`] = (counts[`${front}: ${name}`] ?? 0) + 1;
            if (names === null)
              unexplained.push({
                front,
                seed: number,
                cut: CUTS[index]!,
                own: JSON.stringify(own),
                other: JSON.stringify(other),
              });
          }
        }
      };
      const numbers = Array.from({ length: REQUESTS / SETUPS.length }, (_, index) => first + index);
      await inLanes(
        numbers.map((number) => () => ask(number)),
        LANES,
      );
      expect(unexplained.slice(0, 10)).toEqual([]);
      expect(answers).toBe(numbers.length * CUTS.length * fronts.length);
      figure(`oracle ${setup.title}`, {
        requests: numbers.length,
        cuts: CUTS.length,
        fronts,
        answers,
        explained: counts,
      });
    });

    test("the example of each explanation shows it", async () => {
      const examples = EXPLANATIONS.filter(
        ({ front, example }) =>
          fronts.includes(front) && example?.includes("--reasoning") === (setup.reasoning !== undefined),
      );
      for (const { name, front, example } of examples) {
        const request = drawRequest(Number(/--seed (\d+)/.exec(example!)![1]));
        const cut = /--cut (\S+)/.exec(example!)?.[1] ?? "1";
        const script = cutsOf(request.tokens, request.seed)[CUTS.indexOf(cut as (typeof CUTS)[number])]!;
        const [own, other] = await Promise.all(
          ["own", front].map((each) => servers.find((server) => server.name === each)!.ask(request, script)),
        );
        expect([name, "choices" in own! && "choices" in other! && explained(front, own, other, request)]).toEqual([
          name,
          [name],
        ]);
      }
    });
  });
