// message.js - the element of one message: its text, a note about its end, and buttons for actions.
import {button, canCopy, copy, make} from "./dom.js";
import {Markdown} from "./markdown.js";

const DRAW_MS = 100; // minimum time between two drawings of a growing answer

const NOTES = {
    length: "The answer reached its maximum length.",
    full: "The context is full. Start a new conversation, or edit an earlier message.",
    stopped: "Stopped.",
    interrupted: "Interrupted.",
    failed: "No answer.",
};

// Returns the note about the end of ANSWER, or "". ACTIVE: this page is still receiving the answer.
function noteOf(answer, active) {
    if (active || answer.state === "done")
        return "";
    const full = answer.state === "length" && answer.context >= answer.contextLength;
    const note = NOTES[answer.state === "writing" ? "interrupted" : full ? "full" : answer.state];
    return answer.error ? `${note} ${answer.error}` : note;
}

export class MessageView {
    // ACTIONS has edit(message, text) and retry(message). SPEAK(text) announces a text to users of screen readers.
    constructor(message, actions, speak) {
        const mine = message.role === "user";

        this.message = message;
        this.actions = actions;
        this.speak = speak;
        this.body = make("div", {className: mine ? "body plain" : "body"});
        this.thought = make("div", {className: "plain"});
        this.reasoning = make("details", {className: "reasoning", hidden: true},
            make("summary", {textContent: "Reasoning"}), this.thought);
        this.note = make("p", {className: "note", hidden: true});
        this.figures = make("span", {className: "figures"});
        this.buttons = make("div", {className: "row actions"});
        this.element = make("article", {className: `message ${mine ? "question" : "answer"}`},
            make("h2", {textContent: mine ? "You" : "Answer"}), this.reasoning, this.body, this.note, this.buttons);
        if (mine)
            this.body.append(message.content);
        else
            this.markdown = new Markdown(this.body);
        this.#fillButtons(mine);
    }

    #fillButtons(mine) {
        if (mine)
            this.buttons.append(button("Edit", () => this.#edit()));
        else
            this.retry = this.buttons.appendChild(button("Retry", () => this.actions.retry(this.message)));
        if (canCopy)
            this.buttons.append(button("Copy", event => copy(this.message.content, event.target)));
        if (!mine)
            this.buttons.append(this.figures);
    }

    // Shows the current state of an answer. While the answer grows (ACTIVE), it is drawn at most every DRAW_MS.
    update(active) {
        this.active = active;
        if (!active) {
            clearTimeout(this.timer);
            this.timer = 0;
            this.#draw();
        } else {
            this.timer ||= setTimeout(() => { this.timer = 0; this.#draw(); }, DRAW_MS);
        }
    }

    #draw() {
        const m = this.message, note = noteOf(m, this.active);
        const finished = this.markdown.show(m.content, !this.active);

        this.element.dataset.state = this.active ? "writing" : m.state === "writing" ? "interrupted" : m.state;
        this.element.setAttribute("aria-busy", String(this.active));
        this.reasoning.hidden = !m.reasoning;
        if (m.reasoning)
            this.thought.textContent = m.reasoning;
        this.note.textContent = note;
        this.note.hidden = !note;
        this.figures.textContent = m.figures ?? "";
        this.buttons.hidden = this.active;
        if (this.spoken && finished)
            this.speak(finished);
        if (this.spoken && !this.active)
            this.speak(note || "End of the answer.");
        this.spoken = this.active;
        this.ondraw?.();
    }

    // Only the last answer of a conversation can be retried.
    setLast(last) {
        if (this.retry)
            this.retry.hidden = !last;
    }

    #edit() {
        const input = make("textarea", {value: this.message.content, rows: 4, "aria-label": "Edited message"});
        const end = () => {
            form.replaceWith(this.body);
            this.buttons.hidden = false;
            this.buttons.firstChild.focus();
        };
        const form = make("form", {className: "edit"}, input,
            make("p", {className: "hint", textContent: "Enter sends, Shift+Enter starts a new line. All later messages are replaced."}),
            make("div", {className: "row"}, button("Cancel", end), make("button", {className: "strong"}, "Send")));

        const send = () => {
            if (input.value.trim())
                this.actions.edit(this.message, input.value);
        };
        form.onsubmit = event => {
            event.preventDefault();
            send();
        };
        form.onkeydown = event => {
            if (event.target === input && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                send();
            } else if (event.key === "Escape") {
                event.stopPropagation();
                end();
            }
        };
        this.body.replaceWith(form);
        this.buttons.hidden = true;
        input.focus();
    }
}
