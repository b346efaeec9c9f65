/** Checks that the shipped dashboards equal the table, and that every panel shows values after an hour of load. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dashboards } from "../../scripts/dashboard-panels.ts";
import { json, path } from "../../scripts/dashboards.ts";
import { dialectNames } from "../../src/metrics/rows/dialect-names.ts";
import { LIVE_ONLY } from "./asked.ts";
import { END_S, type Hour, sharedHour } from "./hour.ts";
import { deploy } from "./prometheus.ts";

setDefaultTimeout(60_000);

let loaded: Hour;
beforeAll(async () => {
  loaded = await sharedHour();
});

test("there is one dashboard per dialect", () => {
  expect(dashboards.map(({ dialect }) => dialect).sort()).toEqual([...dialectNames].sort());
  expect(readdirSync(`${deploy}grafana`).sort()).toEqual(dashboards.map(({ dialect }) => `${dialect}.json`).sort());
});

describe.each(dashboards.map((dashboard) => [dashboard.dialect, dashboard] as const))("%s", (_, dashboard) => {
  test("the file equals the table (npx bun scripts/dashboards.ts)", () => {
    expect(readFileSync(path(dashboard), "utf8")).toBe(json(dashboard));
  });

  test("variables are defined, and panels do not overlap", () => {
    const { templating, panels } = JSON.parse(json(dashboard));
    const names = templating.list.map(({ name }: { name: string }) => `$${name}`);
    const used = new Set(JSON.stringify(panels).match(/\$(?!__)\w+/g));
    expect([...used].filter((name) => !names.includes(name))).toEqual([]);
    const cells = new Set<string>();
    for (const { id, gridPos } of panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([id, x < 24, cells.has(`${x} ${y}`)]).toEqual([id, true, false]);
          cells.add(`${x} ${y}`);
        }
      }
    }
    const ids = panels.map(({ id }: { id: number }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("every line of every panel has values, and each variable has choices", async () => {
    const { templating, panels } = JSON.parse(json(dashboard));
    const fill = (expr: string) => expr.replaceAll("$__rate_interval", "1m").replace(/\$\w+/g, ".*");
    const shown: string[] = [];
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets) {
        if (LIVE_ONLY.test(expr)) continue;
        const answer = await loaded.prometheus.query(fill(expr), END_S);
        if (!answer.some(({ value }) => Number.isFinite(value)))
          shown.push(`${title}: ${expr} gives ${JSON.stringify(answer)}`);
      }
    }
    expect(shown).toEqual([]);
    for (const { type, definition } of templating.list) {
      if (type !== "query") continue;
      const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(definition)!;
      expect([
        definition,
        (await loaded.prometheus.query(`group by (${label}) (${fill(selector!)})`, END_S)).length,
      ]).toEqual([definition, expect.any(Number)]);
      expect((await loaded.prometheus.query(`group by (${label}) (${fill(selector!)})`, END_S)).length).toBeGreaterThan(
        0,
      );
    }
  });
});
