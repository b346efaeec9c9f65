/** Prints a stress run as an HTML page without scripts: the red cases with the bytes sent and the report of the client. */
import { markupText } from "./junit.ts";
import type { CaseResult } from "./result.ts";
import type { TimelineAnswer } from "./timeline.ts";
import { isRed, VERDICTS } from "./verdict.ts";

const STYLE = `
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .15em .8em .15em 0; text-align: left; vertical-align: top }
code, pre, ol { font: 12px/1.4 ui-monospace, monospace } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 }
details { border-top: 1px solid #ccc; padding: .5em 0 } summary { cursor: pointer } summary b { color: #b00020 }
.two { display: grid; grid-template-columns: 3fr 2fr; gap: 2em; margin: .5em 0 }
li { overflow-wrap: anywhere } li span { color: #777 } .ok { color: #1b6e2d } .open { color: #777 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b } summary b { color: #ff8a80 } .ok { color: #7bd88f } }
@media (max-width: 60em) { .two { grid-template-columns: 1fr } }`;

/** Returns the page. `again` returns the command that repeats a plan. */
export function stressPage(results: readonly CaseResult[], title: string, again: (plan: string) => string): string {
  const red = results.filter(({ verdict }) => isRed(verdict));
  const counts = VERDICTS.map((name) => [name, results.filter(({ verdict }) => verdict === name).length] as const);
  const rows = counts.flatMap(([name, count]) => (count === 0 ? [] : [`<tr><td>${name}</td><td>${count}</td></tr>`]));
  const others = results
    .filter(({ verdict }) => !isRed(verdict))
    .map(({ plan, fault, verdict, why }) => {
      const tone = verdict === "ok" ? "ok" : "open";
      return `<tr><td class="${tone}">${verdict}</td><td><code>${markupText(plan)}</code></td><td>${markupText(fault)}</td><td>${markupText(why)}</td></tr>`;
    });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${markupText(title)}</title><style>${STYLE}</style></head><body>
<h1>${markupText(title)}</h1>
<table>${rows.join("")}<tr><th>cases</th><th>${results.length}</th></tr></table>
<h2>${red.length === 0 ? "Nothing is red" : `Red: ${red.length}`}</h2>
${red.map((result) => redCase(result, again(result.plan))).join("\n")}
<h2>The others</h2>
<table>${others.join("\n")}</table>
</body></html>
`;
}

function redCase(
  { plan, fault, verdict, why, said, wire, requests, gapsMs, connections }: CaseResult,
  command: string,
): string {
  const reportHtml =
    said === null
      ? "<p>The client reported nothing: the wire alone was judged.</p>"
      : `<table>${Object.entries(said)
          .filter(([, value]) => value !== null)
          .map(([name, value]) => `<tr><th>${name}</th><td><pre>${markupText(valueText(value))}</pre></td></tr>`)
          .join("")}</table>`;
  const connectionSummary = `${requests} requests${gapsMs.length > 0 ? `, ${gapsMs.join(", ")} ms apart` : ""}; ${connections.opened} connections, ${connections.open} open at the end`;
  return `<details><summary><b>${verdict}</b> <code>${markupText(plan)}</code> ${markupText(fault)}. ${markupText(why)}</summary>
<p>To repeat it: <code>${markupText(command)}</code></p>
<div class="two"><div><h3>What was sent</h3>${wire.map(answerList).join("")}<p>${connectionSummary}</p></div><div><h3>What the client reported</h3>${reportHtml}</div></div>
</details>`;
}

const valueText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

function answerList({ status, operations, end, more }: TimelineAnswer): string {
  const items = operations.map(([ms, kind, amount, text]) => {
    const what = kind === "bytes" ? `${amount} B` : kind === "wait" ? `waits ${amount} ms` : kind;
    return `<li><span>${ms.toFixed(1)} ms, ${what}</span> ${markupText(text)}</li>`;
  });
  const rest = more > 0 ? `<p>… and ${more} more</p>` : "";
  return `<p>status ${status}, ends: ${end}</p><ol>${items.join("")}</ol>${rest}`;
}
