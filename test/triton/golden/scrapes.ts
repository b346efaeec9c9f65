/** Parses a metrics page into the form of the recordings. */
import type { Dict, Json } from "./recordings.ts";

export interface ParsedFamily {
  readonly name: string;
  type: string;
  readonly help: string;
  readonly samples: { name: string; labels: Record<string, string>; value: string }[];
}

export function parsePage(text: string): ParsedFamily[] {
  const families: ParsedFamily[] = [];
  for (const line of text.split("\n")) {
    const current = families.at(-1)!;
    if (line.startsWith("# HELP ")) {
      const [, name = "", help = ""] = /^# HELP (\S+) (.*)$/.exec(line)!;
      families.push({ name, type: "", help, samples: [] });
    } else if (line.startsWith("# TYPE ")) current.type = line.slice(line.lastIndexOf(" ") + 1);
    else if (line !== "") {
      const [, name = "", labels = "", value = ""] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line)!;
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, one]) => [key!, one!]);
      current.samples.push({ name, labels: Object.fromEntries(pairs), value });
    }
  }
  return families;
}

/** Returns the families in their order, with their samples. */
export function scrapeOf(text: string): Dict {
  const families = parsePage(text).map(({ name, type, help, samples }) => ({
    name,
    type,
    help,
    samples: samples.map((sample) => ({
      ...(sample.name === name ? {} : { name: sample.name }),
      labels: sample.labels,
      value: numberOf(sample.value),
    })),
  }));
  return { families } as unknown as Dict;
}

const numberOf = (text: string): Json => (/^(Nan|[+-]Inf)$/.test(text) ? text : Number(text));

/** Returns everything of a page except values: families in their order, series sorted. */
export function shapeOf(text: string): string[] {
  const parts = text.split(/(?=^# HELP )/m).filter((part) => part !== "");
  return parts.flatMap((part) => {
    const [help = "", type = "", ...series] = part.trimEnd().split("\n");
    return [help, type, ...series.map((line) => line.slice(0, line.lastIndexOf(" "))).sort()];
  });
}
