// chat.js - shows a conversation: its messages, the input field, and answers in progress.
//
// Answers continue while another conversation is shown. Each conversation has at most one answer in progress.
import {Answer} from "./answer.js";
import {byId, button} from "./dom.js";
import {MessageView} from "./message.js";

const TITLE_CHARACTERS = 60;
const NEAR_END = 80; // the view scrolls with a growing answer if it is at most this many pixels above the end

function titleOf(text) {
    const line = text.trim().split("\n")[0];
    return line.length > TITLE_CHARACTERS ? line.slice(0, TITLE_CHARACTERS - 1) + "…" : line;
}

export class Chat {
    // ONCHANGE() is called when the list of conversations changes. NOTICE(text, ...elements) reports an error.
    constructor(store, settings, onchange, notice) {
        Object.assign(this, {store, settings, onchange, notice});
        this.running = new Map(); // conversation id to its Answer in progress
        this.views = [];
        this.log = byId("log");
        this.input = byId("input");
        this.#listen();
    }

    #listen() {
        byId("composer").onsubmit = event => {
            event.preventDefault();
            this.send();
        };
        this.input.onkeydown = event => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                this.send();
            }
        };
        byId("stop").onclick = () => this.stop();
        document.addEventListener("keydown", event => {
            if (event.key === "Escape" && !document.querySelector("dialog[open]"))
                this.stop();
        });
        byId("system").oninput = event => {
            this.conversation.system = event.target.value;
            this.#showSystem();
        };
        byId("system").onchange = () => {
            if (this.conversation.messages.length)
                this.#save(this.conversation);
        };
        this.log.onscroll = () => {
            this.follows = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END;
        };
    }

    show(conversation) {
        this.conversation = conversation;
        byId("system").value = conversation.system;
        this.#showSystem();
        this.views = [];
        this.log.replaceChildren();
        for (const message of conversation.messages)
            this.#append(message);
        this.#updateButtons();
        this.showContext();
        this.follows = true;
        this.#scroll();
    }

    // Shows how much of the context the conversation used at the end of its last answer.
    showContext() {
        const used = this.conversation.messages.findLast(message => message.context)?.context ?? 0;
        const length = this.settings.contextLength();

        byId("context").hidden = !used || !length;
        if (byId("context").hidden)
            return;
        const meter = byId("context-meter"), text = `${used.toLocaleString("en")} of ${length.toLocaleString("en")} tokens`;
        Object.assign(meter, {max: length, high: 0.9 * length, value: used});
        meter.setAttribute("aria-valuetext", text);
        byId("context-text").textContent = text;
    }

    // Draws the conversation again after another tab changed it, or when Markdown has become available.
    refresh() {
        const c = this.store.get(this.conversation.id);
        if (c && !this.running.has(c.id))
            this.show(c);
        else
            this.views.forEach(view => view.markdown && view.update(this.#isActive(view.message)));
    }

    #showSystem() {
        const line = titleOf(this.conversation.system);
        byId("system-line").textContent = line ? `: ${line}` : "";
    }

    #isActive(message) {
        return this.running.get(this.conversation.id)?.message === message;
    }

    #append(message) {
        const view = new MessageView(message, {
            edit: (m, text) => this.edit(m, text), retry: m => this.retry(m),
        }, text => { byId("spoken").append(Object.assign(document.createElement("p"), {textContent: text})); });

        view.ondraw = () => this.#scroll();
        this.views.push(view);
        this.log.append(view.element);
        if (view.markdown)
            view.update(this.#isActive(message));
    }

    #scroll() {
        if (this.follows)
            this.log.scrollTop = this.log.scrollHeight;
    }

    #save(c) {
        c.updated = Date.now();
        this.store.save(c);
        this.onchange();
    }

    #updateButtons() {
        const busy = this.running.has(this.conversation.id);

        byId("stop").hidden = !busy;
        byId("send").hidden = busy;
        this.views.forEach((view, i) => {
            view.setLast(i === this.views.length - 1);
            view.element.classList.toggle("locked", busy);
        });
    }

    send() {
        const text = this.input.value;

        if (!text.trim() || this.running.has(this.conversation.id))
            return;
        this.input.value = "";
        this.#ask(text);
    }

    stop() {
        this.running.get(this.conversation.id)?.stop();
    }

    // Removes MESSAGE and all later messages from the conversation.
    #cut(message) {
        const at = this.conversation.messages.indexOf(message);

        this.conversation.messages.length = at;
        this.views.splice(at).forEach(view => view.element.remove());
    }

    edit(message, text) {
        if (this.running.has(this.conversation.id))
            return;
        this.#cut(message);
        this.#ask(text);
        this.input.focus();
    }

    retry(message) {
        if (this.running.has(this.conversation.id))
            return;
        this.#cut(message);
        this.#answer();
        this.input.focus();
    }

    #ask(text) {
        const c = this.conversation, message = {role: "user", content: text};

        c.title ||= titleOf(text);
        c.messages.push(message);
        this.#append(message);
        this.#answer();
    }

    async #answer() {
        const c = this.conversation, message = {role: "assistant", content: "", state: "writing"};

        if (this.settings.contextLength())
            message.contextLength = this.settings.contextLength();
        let body;

        this.notice("");
        byId("spoken").replaceChildren();
        c.messages.push(message);
        const answer = new Answer(c, () => this.store.save(c), () => this.#advance(c, message));
        this.running.set(c.id, answer);
        this.#append(message);
        this.#updateButtons();
        this.follows = true;
        this.#scroll();
        this.#save(c);
        body = this.settings.fields();
        await answer.run(body, this.settings.key());
        this.running.delete(c.id);
        this.#advance(c, message);
        if (c === this.conversation) {
            this.#updateButtons();
            this.showContext();
        }
        if (answer.status === 401)
            this.notice(message.error, button("Enter a key", () => this.settings.open("key")));
    }

    #advance(c, message) {
        if (c === this.conversation)
            this.views.find(view => view.message === message)?.update(this.#isActive(message));
    }
}
