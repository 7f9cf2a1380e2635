// answer.js - requests one answer of the model and collects it in a message. Does not access elements of the page.
//
// While the answer arrives, the message has the state "writing" and is saved about once a second and when the page
// closes. A stored message in this state without an Answer object was interrupted.
import {ApiError, chatChunks} from "./api.js";

const SAVE_MS = 1000;

// The rate of tokens is shown only if an answer arrived in at least RATE_PIECES pieces of text over at least RATE_MS.
// Short answers arrive at once, and so does text that the server held back (a mark that may begin a tool call).
const RATE_MS = 200, RATE_PIECES = 4;

// Returns the messages of CONVERSATION in the form that is sent to the model. Empty answers are omitted, and adjacent
// messages of the same role are joined, because many chat templates accept alternating roles only.
export function history(conversation) {
    const out = [];

    if (conversation.system.trim())
        out.push({role: "system", content: conversation.system});
    for (const {role, content} of conversation.messages) {
        const last = out.at(-1);
        if (content === "")
            continue;
        if (last && last.role === role)
            last.content += "\n\n" + content;
        else
            out.push({role, content});
    }
    return out;
}

function seconds(ms) {
    return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

// Returns the tokens per second of an answer, or 0 if the rate is not to be shown. PIECES: number of pieces of text;
// MS: milliseconds between the first and the last piece.
export function tokenRate(tokens, pieces, ms) {
    const enough = tokens > 1 && ms >= RATE_MS && pieces >= RATE_PIECES && 2 * pieces >= tokens;

    return enough ? (tokens - 1) / ms * 1000 : 0;
}

export class Answer {
    // Fills the last message of CONVERSATION. SAVE() stores it; ONCHANGE(answer) is called after each change.
    constructor(conversation, save, onchange) {
        this.message = conversation.messages.at(-1);
        this.messages = history({...conversation, messages: conversation.messages.slice(0, -1)});
        this.save = save;
        this.onchange = onchange;
        this.controller = new AbortController();
        this.tokens = 0;
        this.pieces = 0;
    }

    // Sends the request and receives the whole answer; never throws. BODY: the fields of the request without messages.
    async run(body, key) {
        const onhide = () => this.save();
        const timer = setInterval(() => this.save(), SAVE_MS);

        addEventListener("pagehide", onhide);
        this.begun = performance.now();
        try {
            await this.#read(body, key);
            this.message.state = this.finish === "length" ? "length" : "done";
        } catch (error) {
            this.#fail(error);
        }
        clearInterval(timer);
        removeEventListener("pagehide", onhide);
        this.#measure();
        this.save();
        this.onchange(this);
    }

    stop() {
        this.controller.abort();
    }

    async #read(body, key) {
        const request = {...body, messages: this.messages, stream: true, stream_options: {include_usage: true}};

        for await (const chunk of chatChunks(request, key, this.controller.signal)) {
            const choice = chunk.choices?.[0], delta = choice?.delta;
            if (chunk.usage) {
                this.tokens = chunk.usage.completion_tokens;
                this.message.context = chunk.usage.total_tokens;
            }
            if (choice?.finish_reason)
                this.finish = choice.finish_reason;
            if (delta)
                this.#take(delta.content, delta.reasoning ?? delta.reasoning_content);
        }
        if (!this.finish)
            throw new ApiError("The connection ended before the answer was complete.");
    }

    // Appends a piece of the answer's text and of its reasoning; either may be undefined.
    #take(text, reasoning) {
        if (!text && !reasoning)
            return;
        this.first ??= performance.now();
        this.last = performance.now();
        this.pieces++;
        if (typeof text === "string")
            this.message.content += text;
        if (typeof reasoning === "string")
            this.message.reasoning = (this.message.reasoning ?? "") + reasoning;
        this.onchange(this);
    }

    #fail(error) {
        if (this.controller.signal.aborted) {
            this.message.state = "stopped";
            return;
        }
        this.message.state = this.message.content ? "interrupted" : "failed";
        this.message.error = error instanceof ApiError ? error.message : "The connection was lost.";
        this.status = error.status;
    }

    #measure() {
        if (!this.first)
            return;
        const parts = [`first text after ${seconds(this.first - this.begun)}`];
        if (this.tokens)
            parts.unshift(`${this.tokens} ${this.tokens === 1 ? "token" : "tokens"}`);
        const rate = tokenRate(this.tokens, this.pieces, this.last - this.first);
        if (rate)
            parts.push(`${rate.toFixed(1)} tokens/s`);
        this.message.figures = parts.join(", ");
    }
}
