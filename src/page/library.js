// library.js - the libraries of others, each loaded when it is first needed. A program that was built without one has
// a page without it: Markdown and formulas are shown as they were written, code without colours, histograms as tables.
import {libraries} from "./libraries.js";

const GLOBALS = {marked: "marked", dompurify: "DOMPurify", "highlight.js": "hljs", "chart.js": "Chart", katex: "katex"};
const STYLED = ["katex"]; // libraries with a style sheet
const loading = new Map();

// Debian 12's DOMPurify (2.4.1+dfsg+~2.4.0-2+deb12u1) asks for the depth of a variable that it does not declare, where
// upstream asks nothing, and throws. A depth of 0 lets it go on.
globalThis.shadowNode = Object.freeze({__depth: 0});

async function load(name) {
    if (!libraries.some(row => row[0] === name))
        return null;
    if (STYLED.includes(name))
        document.head.append(Object.assign(document.createElement("link"), {rel: "stylesheet", href: `page/library/${name}.css`}));
    try {
        await import(`./library/${name.replace(/\.js$/, "")}.js`);
    } catch {
        return null;
    }
    return globalThis[GLOBALS[name]] ?? null;
}

// What the library NAME offers, or null. Asks the server once.
export function library(name) {
    if (!loading.has(name))
        loading.set(name, load(name));
    return loading.get(name);
}
