// markdown.js - shows the Markdown text of an answer as elements while the text grows.
//
// Text of a model is not trusted. HTML in it is shown as text. DOMPurify reduces the output of marked to a short list
// of tags and attributes. Links use http, https or mailto only, and send no referrer. Pictures would contact other
// hosts, so they become links. The page's Content-Security-Policy is the second line of defence. Without marked and
// DOMPurify the text is shown as plain text.
//
// Each Markdown block (paragraph, list, code) is compared with the block drawn before, and only changed blocks are
// drawn again.
import {button, canCopy, copy, make} from "./dom.js";
import {drawFormula, formulaExtensions} from "./formulas.js";
import {library} from "./library.js";

const ALLOWED = {
    ALLOWED_TAGS: ["a", "b", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
        "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
    ALLOWED_ATTR: ["align", "class", "href", "start"],
    ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
    ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
};
const COLOURED = {ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true};
const MAX_COLOURED = 100000; // longer code is not coloured, in characters

function escape(text) {
    return text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
}

let reader = null; // functions that use marked and DOMPurify; null until both are loaded

// Tests PURIFY with a sample: returns whether it removes forbidden HTML and keeps allowed HTML.
function isSound(purify) {
    const box = document.createElement("div");

    try {
        box.append(purify.sanitize('<b id="i">a</b><img alt="i"><a href="javascript:f()">b</a><script>c</script>', ALLOWED));
    } catch {
        return false;
    }
    return box.innerHTML === "<b>a</b><a>b</a>";
}

// Loads the libraries for Markdown. Returns whether they are available.
export async function loadMarkdown() {
    const [marked, purify] = await Promise.all([library("marked"), library("dompurify")]);

    if (!marked || !purify || !isSound(purify))
        return false;
    const renderer = new marked.Renderer();
    renderer.html = html => /^<br *\/?>$/i.test(html.trim()) ? "<br>" : escape(html);
    renderer.image = (href, title, text) => renderer.link(href, null, escape(text || href || ""));
    renderer.checkbox = checked => checked ? "☑ " : "☐ ";
    renderer.heading = (text, level) => `<h${Math.min(6, level + 2)}>${text}</h${Math.min(6, level + 2)}>`;
    marked.use({extensions: formulaExtensions(escape)});
    const options = {...marked.getDefaults(), gfm: true, breaks: true, headerIds: false, mangle: false, renderer,
        extensions: marked.defaults.extensions};
    reader = {
        blocks: text => marked.lexer(text, options).filter(token => token.type !== "space"),
        html: token => marked.parser([token], options),
        purify,
    };
    return true;
}

async function colour(code, language) {
    const hljs = await library("highlight.js"), text = code.textContent;

    if (hljs && text.length <= MAX_COLOURED && hljs.getLanguage(language))
        code.replaceChildren(reader.purify.sanitize(hljs.highlight(language, text, true).value, COLOURED));
}

// Adds a header with the language and a copy button to the code block PRE, and highlights the code if it is COMPLETE.
function dressCode(pre, complete) {
    const code = pre.querySelector("code") ?? pre;
    const language = /^language-([\w+#.-]{1,30})$/.exec(code.className)?.[1] ?? "";
    const head = make("div", {className: "code-head"}, make("span", {textContent: language}));

    code.removeAttribute("class");
    pre.tabIndex = 0;
    if (canCopy)
        head.append(button("Copy", event => copy(code.textContent, event.target), {"aria-label": "Copy this code"}));
    const box = make("div", {className: "code", role: "group", "aria-label": language ? `Code, ${language}` : "Code"});
    pre.replaceWith(box);
    box.append(head, pre);
    if (complete && language)
        colour(code, language);
}

function draw(token, complete) {
    const fragment = reader.purify.sanitize(reader.html(token), ALLOWED);

    for (const link of fragment.querySelectorAll("a")) {
        link.target = "_blank";
        link.rel = "noopener noreferrer nofollow";
    }
    const formulas = fragment.querySelectorAll("em.formula"); // all are the renderer's, as HTML of the answer is text
    for (const element of fragment.querySelectorAll("[class]"))
        if (element.tagName !== "CODE" && element.tagName !== "EM")
            element.removeAttribute("class");
    for (const element of formulas) {
        if (element.classList.contains("display"))
            Object.assign(element, {tabIndex: 0, role: "group", ariaLabel: "Formula"});
        drawFormula(element);
    }
    for (const table of fragment.querySelectorAll("table")) {
        const box = make("div", {className: "wide", tabIndex: 0, role: "group", "aria-label": "Table"});
        table.replaceWith(box);
        box.append(table);
    }
    for (const pre of fragment.querySelectorAll("pre"))
        dressCode(pre, complete);
    return fragment;
}

// Shows a growing Markdown text inside an element.
export class Markdown {
    constructor(element) {
        this.element = element;
        this.raw = []; // Markdown source of each block that is drawn
        this.shown = "";
    }

    // Shows TEXT. COMPLETE: the text will not grow any more. Returns the text of the blocks that this call completed.
    show(text, complete) {
        if (!reader) {
            this.#showPlain(text);
            return "";
        }
        if (this.shown)
            this.element.replaceChildren(); // the text was plain while the libraries were loading
        this.shown = "";
        this.element.classList.remove("plain");
        return this.#showBlocks(reader.blocks(text), complete);
    }

    #showBlocks(tokens, complete) {
        const finished = [];

        tokens.forEach((token, i) => {
            const closed = complete || i < tokens.length - 1, key = `${closed ? "closed" : "open"} ${token.raw}`;
            if (this.raw[i] === key)
                return;
            const box = make("div", {className: "block"}, draw(token, closed));
            if (this.element.children[i])
                this.element.children[i].replaceWith(box);
            else
                this.element.append(box);
            if (closed && !this.raw[i]?.startsWith("closed"))
                finished.push(token.type === "code" ? "Code." : box.textContent.replace(/\s+/g, " ").trim());
            this.raw[i] = key;
        });
        while (this.element.children.length > tokens.length)
            this.element.lastElementChild.remove();
        this.raw.length = tokens.length;
        return finished.join("\n");
    }

    #showPlain(text) {
        this.element.classList.add("plain");
        if (this.shown && text.startsWith(this.shown))
            this.element.lastChild.appendData(text.slice(this.shown.length));
        else
            this.element.replaceChildren(text);
        this.shown = text;
    }
}
