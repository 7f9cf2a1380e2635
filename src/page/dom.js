// dom.js - short functions that create elements. Strings become text nodes and are never parsed as HTML.

// Returns an element TAG with PROPERTIES and CHILDREN (elements or strings; null is skipped).
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

// Copies TEXT to the clipboard and confirms this on the button B. Only pages from https or localhost have a clipboard.
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
