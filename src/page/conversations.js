// conversations.js - the list of conversations in the side bar: open, delete, export, import.
import {button, byId, make} from "./dom.js";

export class Conversations {
    // CHAT is the Chat object that shows a conversation; NOTICE(text) reports an error.
    constructor(store, chat, notice) {
        Object.assign(this, {store, chat, notice});
        byId("new").onclick = () => this.open(store.create());
        byId("export").onclick = () => this.#export();
        byId("import").onclick = () => byId("file").click();
        byId("file").onchange = event => this.#import(event.target);
        byId("menu").onclick = () => this.#toggle(!document.body.classList.contains("side-open"));
        // The live view has no button that closes the list.
        window.addEventListener("hashchange", () => this.#toggle(false));
        byId("side").onkeydown = event => {
            if (event.key === "Escape" && document.body.classList.contains("side-open")) {
                event.stopPropagation();
                this.#toggle(false);
                byId("menu").focus();
            }
        };
    }

    // Opens or closes the list. On a narrow screen the open list covers the page.
    #toggle(open) {
        document.body.classList.toggle("side-open", open);
        byId("menu").setAttribute("aria-expanded", String(open));
        if (open)
            byId("new").focus();
    }

    open(conversation) {
        this.chat.show(conversation);
        this.draw();
        this.#toggle(false);
        location.hash = "#chat";
        byId("input").focus();
    }

    draw() {
        const shown = this.chat.conversation.id;

        byId("list").replaceChildren(...this.store.list().map(c => {
            const title = c.title || "Untitled";
            const open = button(title, () => this.open(c), {className: "title"});

            if (c.id === shown)
                open.setAttribute("aria-current", "true");
            return make("li", {}, open,
                button("×", () => this.#remove(c), {className: "remove", "aria-label": `Delete “${title}”`}));
        }));
    }

    #remove(c) {
        if (!confirm(`Delete “${c.title || "Untitled"}”? This cannot be undone.`))
            return;
        this.chat.running.get(c.id)?.stop();
        this.store.remove(c.id);
        if (c.id === this.chat.conversation.id)
            this.open(this.store.list()[0] ?? this.store.create());
        this.draw();
    }

    #export() {
        const url = URL.createObjectURL(new Blob([this.store.exported()], {type: "application/json"}));

        make("a", {href: url, download: `gallop-${new Date().toISOString().slice(0, 10)}.json`}).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    async #import(input) {
        const file = input.files[0];

        input.value = "";
        if (!file)
            return;
        try {
            const n = this.store.imported(await file.text());
            this.notice(n === 1 ? "1 conversation was imported." : `${n} conversations were imported.`);
        } catch (error) {
            this.notice(`${file.name}: ${error.message}`);
        }
        this.draw();
    }
}
