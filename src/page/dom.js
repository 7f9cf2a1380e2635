// dom.js - makes elements in one line. Text is always set as text: no string is parsed as HTML here.

// An element TAG with properties and children (elements or strings; null is left out).
export function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);

    for (const [name, value] of Object.entries(properties)) {
        if (name in element)
            element[name] = value;
        else
            element.setAttribute(name, value);
    }
    element.append(...children.filter(child => child !== null));
    return element;
}

export function button(text, onclick, properties = {}) {
    return make("button", {type: "button", textContent: text, onclick, ...properties});
}

export function byId(id) {
    return document.getElementById(id);
}

// Copies TEXT and confirms it on the button B. Browsers offer the clipboard to pages from https and localhost only.
export async function copy(text, b) {
    const before = b.textContent;

    try {
        await navigator.clipboard.writeText(text);
        b.textContent = "Copied";
    } catch {
        b.textContent = "Not allowed";
    }
    setTimeout(() => { b.textContent = before; }, 1500);
}

export const canCopy = Boolean(navigator.clipboard);
