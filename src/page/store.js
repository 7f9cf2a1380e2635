// store.js - the conversations, stored in this browser only (localStorage).
//
// A conversation is {id, title, system, updated, messages}. A message is {role, content}; an answer also has {state,
// reasoning, error, figures, context, contextLength}. context is the number of tokens in use at the answer's end, of at
// most contextLength. States: writing, done, length, stopped, interrupted, failed. Each conversation is a separate
// entry, so that two tabs overwrite each other's changes only in a conversation that both change.

const PREFIX = "gallop.conversation.";
const FORMAT = "gallop-conversations";
const STATES = ["writing", "done", "length", "stopped", "interrupted", "failed"];

function newId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(12)), b => b.toString(16).padStart(2, "0")).join("");
}

function isText(value) {
    return typeof value === "string";
}

// Returns a copy of the untrusted message FROM with the known fields only, or null if FROM is invalid.
function readMessage(from) {
    if (!from || !["user", "assistant"].includes(from.role) || !isText(from.content))
        return null;
    const message = {role: from.role, content: from.content};
    if (from.role === "assistant") {
        message.state = STATES.includes(from.state) ? from.state : "done";
        for (const name of ["reasoning", "error", "figures"])
            if (isText(from[name]))
                message[name] = from[name];
        for (const name of ["context", "contextLength"])
            if (Number.isSafeInteger(from[name]) && from[name] >= 0)
                message[name] = from[name];
    }
    return message;
}

function readConversation(from) {
    if (!from || !isText(from.id) || !/^[0-9a-f]{8,64}$/.test(from.id) || !Array.isArray(from.messages))
        return null;
    const messages = from.messages.map(readMessage);
    if (messages.includes(null))
        return null;
    return {
        id: from.id, title: isText(from.title) ? from.title.slice(0, 200) : "",
        system: isText(from.system) ? from.system : "",
        updated: Number.isFinite(from.updated) ? from.updated : 0, messages,
    };
}

function parse(text) {
    try {
        return readConversation(JSON.parse(text));
    } catch {
        return null;
    }
}

export class Store {
    // ONFAIL(sentence) is called when the browser cannot store more.
    constructor(onfail) {
        this.onfail = onfail;
        this.known = new Map();
        this.removed = new Set(); // ids of deleted conversations: answers that still arrive are dropped
        try {
            for (const key of Object.keys(localStorage))
                if (key.startsWith(PREFIX))
                    this.#note(parse(localStorage.getItem(key)));
        } catch {
            onfail("This browser stores nothing for this page: conversations are lost when it is closed.");
        }
    }

    #note(c) {
        if (c)
            this.known.set(c.id, c);
    }

    create() {
        return {id: newId(), title: "", system: "", updated: Date.now(), messages: []};
    }

    // Returns all conversations, the most recently changed first.
    list() {
        return [...this.known.values()].sort((a, b) => b.updated - a.updated);
    }

    get(id) {
        return this.known.get(id);
    }

    save(c) {
        if (this.removed.has(c.id))
            return;
        this.known.set(c.id, c);
        try {
            localStorage.setItem(PREFIX + c.id, JSON.stringify(c));
        } catch {
            this.onfail("The browser's storage is full: new messages are not stored. Export or delete conversations.");
        }
    }

    remove(id) {
        this.known.delete(id);
        this.removed.add(id);
        try {
            localStorage.removeItem(PREFIX + id);
        } catch {
            // storage is not available, so there is nothing to remove
        }
    }

    // Takes over a change that another tab made to the entry KEY. Returns the id of the conversation, or null.
    follow(key, text) {
        if (!key || !key.startsWith(PREFIX))
            return null;
        const id = key.slice(PREFIX.length), c = text && parse(text);
        if (c && c.id === id)
            this.known.set(id, c);
        else
            this.known.delete(id);
        return id;
    }

    exported() {
        return JSON.stringify({format: FORMAT, version: 1, conversations: this.list()}, null, 1);
    }

    // Adds the conversations of TEXT, an exported file. Existing conversations are not replaced: a different
    // conversation of the file with the same id is added as a copy. Returns the number of added
    // conversations. If the file is invalid, throws an Error with a sentence and adds none.
    imported(text) {
        let file;

        try {
            file = JSON.parse(text);
        } catch {
            throw new Error("The file is not JSON.");
        }
        if (!file || file.format !== FORMAT || !Array.isArray(file.conversations))
            throw new Error("The file holds no exported conversations.");
        if (file.version !== 1)
            throw new Error(`The file has version ${file.version}, this page reads version 1.`);
        const list = file.conversations.map(readConversation), bad = list.indexOf(null);
        if (bad >= 0)
            throw new Error(`Conversation ${bad + 1} of the file is damaged. Nothing was imported.`);
        const added = list.filter(c => JSON.stringify(c) !== JSON.stringify(this.known.get(c.id)));
        for (const c of added)
            this.save(this.known.has(c.id) || this.removed.has(c.id) ? {...c, id: newId()} : c);
        return added.length;
    }
}
