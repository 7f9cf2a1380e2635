// formulas.js - shows TeX formulas in Markdown. An extension of marked finds the formulas, and KaTeX draws them.
//
// $...$ and \(...\) are formulas within a line, $$...$$ and \[...\] are formulas on their own. Formulas in code stay
// code. As in Pandoc, a single $ begins a formula only if no white space follows, and ends a formula only if no white
// space precedes and no digit follows, so that prices ($5 and $6) stay text. Without KaTeX a formula is shown as TeX.
//
// Formulas from the model are not trusted: KaTeX refuses links, pictures, HTML and attributes, and limits macros and
// sizes. KaTeX creates elements and sets single style properties, which the page's Content-Security-Policy allows.
import {library} from "./library.js";

const INLINE = [
    [/^\$\$((?:[^$\\`]|\\[^])+?)\$\$/, true],
    [/^\\\[([^]+?)\\\]/, true],
    [/^\\\(((?:(?!\n\n)[^])+?)\\\)/, false],
    [/^\$(?![\s$])((?:[^$\\`\n]|\\[^\n]|\n(?!\s*\n))*?(?:[^\s$\\`]|\\[^\s]))\$(?!\d)/, false],
];
const BLOCK = /^ {0,3}(?:\$\$((?:(?!\n\n)(?:[^$\\]|\\[^]))+?)\$\$|\\\[((?:(?!\n\n)[^])+?)\\\])[ \t]*(?:\n+|$)/;
const MAX_CHARACTERS = 5000; // a longer formula is not drawn
const OPTIONS = {strict: "ignore", maxSize: 25, maxExpand: 1000};

function formula(raw, text, display) {
    return {type: "formula", raw, text: text.trim(), display};
}

// Returns the extensions for marked. They write each formula as an element with its TeX, for drawFormula() to draw.
// ESCAPE escapes a text for HTML.
export function formulaExtensions(escape) {
    const renderer = token => `<em class="${token.display ? "formula display" : "formula"}">${escape(token.raw.trim())}</em>`;

    return [{
        name: "formula",
        level: "inline",
        start: text => text.match(/\$|\\[([]/)?.index,
        tokenizer(text) {
            for (const [pattern, display] of INLINE) {
                const match = pattern.exec(text);
                if (match)
                    return formula(match[0], match[1], display);
            }
            return undefined;
        },
        renderer,
    }, {
        name: "formulaBlock",
        level: "block",
        start: text => text.match(/(?:^|\n) {0,3}(?:\$\$|\\\[)/)?.index,
        tokenizer(text) {
            const match = BLOCK.exec(text);
            return match ? {...formula(match[0], match[1] ?? match[2], true), type: "formulaBlock"} : undefined;
        },
        renderer: token => `<p>${renderer(token)}</p>`,
    }];
}

// Draws the formula in ELEMENT, which contains TeX with its delimiters. A formula that KaTeX refuses stays TeX.
export async function drawFormula(element) {
    const written = element.textContent, text = written.replace(/^(?:\$\$?|\\[([])([^]*?)(?:\$\$?|\\[)\]])$/, "$1").trim();
    const katex = text.length <= MAX_CHARACTERS ? await library("katex") : null;
    let refused = false;

    if (!katex)
        return;
    const trust = () => {
        refused = true;
        return false;
    };
    try {
        katex.render(text, element, {...OPTIONS, trust, displayMode: element.classList.contains("display")});
    } catch {
        refused = true;
    }
    if (refused)
        element.textContent = written;
    for (const svg of element.querySelectorAll("svg[style]")) // KaTeX sets this attribute, which the policy blocks
        svg.style.cssText = svg.getAttribute("style");
}
