/** Makes an HTML page for a picture: a terminal with commands and their output on the left, an image on the right. */

export interface CommandOutput {
  readonly command: string;
  readonly output: readonly string[];
}

const STYLE = `
body { margin: 0; padding: 20px; background: #e6e8ee; display: grid; grid-template-columns: 780px 1fr; gap: 20px;
  box-sizing: border-box; height: 100vh; font: 12.5px/1.5 "DejaVu Sans Mono", monospace }
.terminal { background: #14161f; color: #c6cbdc; border-radius: 10px; overflow: hidden }
.bar { background: #232634; padding: 9px 12px; display: flex; gap: 7px }
.bar i { width: 11px; height: 11px; border-radius: 50% }
pre { margin: 0; padding: 12px 16px; font: inherit; white-space: pre-wrap; overflow-wrap: anywhere }
b { color: #fff; font-weight: 600 } .prompt { color: #5ee0a0 } .number { color: #ffd479 }
.beside { border-radius: 10px; overflow: hidden; background: #f3f4f6 }
.beside img { width: 100%; display: block }`;

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
/** Colours numbers that stand alone, but no numbers inside names, labels and addresses. */
const coloured = (line: string) =>
  escaped(line).replace(/(?<=^|\s)-?\d[\d,]*(\.\d+)?(?=\s|$)/g, '<span class="number">$&</span>');

/** Returns the page as HTML. `beside`: address of the picture on the right. */
export function terminalPage(commands: readonly CommandOutput[], beside: string): string {
  const lines = commands.map(({ command, output }) =>
    [`<span class="prompt">$</span> <b>${escaped(command)}</b>`, ...output.map(coloured)].join("\n"),
  );
  const dots = ["#ff5f57", "#febc2e", "#28c840"].map((colour) => `<i style="background: ${colour}"></i>`).join("");
  return `<!doctype html><meta charset="utf-8"><style>${STYLE}</style>
<div class="terminal"><div class="bar">${dots}</div><pre>${lines.join("\n\n")}</pre></div>
<div class="beside"><img src="${beside}" alt=""></div>`;
}
