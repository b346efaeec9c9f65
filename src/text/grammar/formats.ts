/** Draws texts of JSON Schema formats: those of the specification (2020-12) and of vLLM's grammar libraries. */
import type { Draws } from "./draws.ts";

const two = (number: number) => String(number).padStart(2, "0");
const hex = (draws: Draws, digits: number) =>
  Array.from({ length: digits }, () => draws.below(16).toString(16)).join("");
const NAMES = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy"] as const;
const HOSTS = ["example", "sample", "harbor", "station", "garden", "library"] as const;
const ENDS = ["com", "org", "net", "io"] as const;

const host = (draws: Draws) => `${draws.pick(HOSTS)}.${draws.pick(ENDS)}`;
const date = (draws: Draws) => `${1990 + draws.below(45)}-${two(1 + draws.below(12))}-${two(1 + draws.below(28))}`;
const time = (draws: Draws) =>
  `${two(draws.below(24))}:${two(draws.below(60))}:${two(draws.below(60))}${draws.chance(0.75) ? "Z" : "+02:00"}`;
const path = (draws: Draws) => `/${draws.pick(NAMES)}/${draws.below(1000)}`;
const uri = (draws: Draws) => `https://${host(draws)}${path(draws)}`;
const email = (draws: Draws) => `${draws.pick(NAMES)}${draws.below(100)}@${host(draws)}`;

/** Draws a text, by the name of the format. Other formats are ignored. */
export const STRING_FORMATS: Readonly<Record<string, (draws: Draws) => string>> = {
  "date-time": (draws) => `${date(draws)}T${time(draws)}`,
  date,
  time,
  duration: (draws) => `P${1 + draws.below(30)}DT${draws.below(24)}H${draws.below(60)}M`,
  email,
  "idn-email": email,
  hostname: host,
  "idn-hostname": host,
  ipv4: (draws) => [10 + draws.below(200), draws.below(256), draws.below(256), 1 + draws.below(254)].join("."),
  ipv6: (draws) => Array.from({ length: 8 }, () => hex(draws, 4)).join(":"),
  uuid: (draws) =>
    `${hex(draws, 8)}-${hex(draws, 4)}-4${hex(draws, 3)}-${draws.pick("89ab".split(""))}${hex(draws, 3)}-${hex(draws, 12)}`,
  uri,
  iri: uri,
  "uri-reference": path,
  "iri-reference": path,
  "uri-template": (draws) => `${path(draws)}/{id}`,
  "json-pointer": path,
  "relative-json-pointer": (draws) => `${draws.below(4)}${path(draws)}`,
  regex: (draws) => `^[a-z]{${1 + draws.below(9)}}$`,
};
