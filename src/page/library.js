// library.js - third-party libraries, each loaded when it is first needed. Without one (they are optional at build
// time) the page shows Markdown and formulas as text, code without colours, histograms as tables.
import {libraries} from "./libraries.js";

const GLOBALS = {marked: "marked", dompurify: "DOMPurify", "highlight.js": "hljs", "chart.js": "Chart", katex: "katex"};
const STYLED = ["katex"]; // libraries with a style sheet
const loading = new Map();

// DOMPurify of Debian 12 (2.4.1+dfsg+~2.4.0-2+deb12u1) throws, because it reads the depth of a variable that it does
// not declare. Upstream has no such check. A depth of 0 lets it continue.
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

// The exports of the library NAME, or null. Requests it from the server once.
export function library(name) {
    if (!loading.has(name))
        loading.set(name, load(name));
    return loading.get(name);
}
