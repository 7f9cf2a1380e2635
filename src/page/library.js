// library.js - loads each third-party library when it is first needed. The libraries are optional at build time:
// without them the page shows Markdown and formulas as text, code without colours, and charts as tables.
import {libraries} from "./libraries.js";

const GLOBALS = {marked: "marked", dompurify: "DOMPurify", "highlight.js": "hljs", "chart.js": "Chart", katex: "katex"};
const STYLED = ["katex"]; // libraries with a style sheet
const loading = new Map();

// DOMPurify of Debian 12 (2.4.1+dfsg+~2.4.0-2+deb12u1) throws, because it reads the property __depth of a variable
// shadowNode that it never declares. Upstream has no such check. With this global variable DOMPurify works.
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

// Returns the exports of the library NAME, or null if it is not available. Loads the library once.
export function library(name) {
    if (!loading.has(name))
        loading.set(name, load(name));
    return loading.get(name);
}
