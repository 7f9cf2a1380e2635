// formulas.js - TeX formulas in Markdown: found by an extension of marked, drawn by KaTeX.
//
// $...$ and \(...\) are formulas within a line, $$...$$ and \[...\] are formulas on their own. Formulas in code stay
// code. As in Pandoc, a single $ begins a formula only before a character that is not white space, and ends one only
// after such a character and not before a digit, so that prices stay prices. Without KaTeX a formula is shown as TeX.
//
// A formula of an answer is not trusted: KaTeX refuses links, pictures, HTML and attributes, and limits macros and
// sizes. It makes elements and sets their styles one by one, which the page's Content-Security-Policy allows.
import {library} from "./library.js";

const INLINE = [
    [/^\$\$((?:[^$\\`]|\\[^])+?)\$\$/, true],
    [/^\\\[([^]+?)\\\]/, true],
    [/^\\\(((?:(?!\n\n)[^])+?)\\\)/, false],
    [/^\$(?![\s$])((?:[^$\\`\n]|\\[^\n]|\n(?!\s*\n))*?(?:[^\s$\\`]|\\[^\s]))\$(?!\d)/, false],
];
const BLOCK = /^ {0,3}(?:\$\$((?:(?!\n\n)(?:[^$\\]|\\[^]))+?)\$\$|\\\[((?:(?!\n\n)[^])+?)\\\])[ \t]*(?:\n+|$)/;
const MAX_CHARACTERS = 5000; // of a formula that is drawn
const OPTIONS = {strict: "ignore", maxSize: 25, maxExpand: 1000};

function formula(raw, text, display) {
    return {type: "formula", raw, text: text.trim(), display};
}

// Extensions of marked. ESCAPE escapes a text for HTML. The element holds the formula as TeX until it is drawn.
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

// Draws ELEMENT, which has the classes above and holds a formula with its delimiters. A formula that is wrong, or uses
// what is refused, stays TeX.
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
    for (const svg of element.querySelectorAll("svg[style]")) // set as an attribute, which the policy forbids
        svg.style.cssText = svg.getAttribute("style");
}
