// page.js - the entry point of the page: creates chat, list, settings and live view, and connects them.
import {servedModels} from "./api.js";
import {Chat} from "./chat.js";
import {Conversations} from "./conversations.js";
import {button, byId} from "./dom.js";
import {Live} from "./live.js";
import {loadMarkdown} from "./markdown.js";
import {Settings} from "./settings.js";
import {Store} from "./store.js";

// Shows a notice with TEXT and ELEMENTS above the conversation. TEXT "" removes the notice.
function notice(text, ...elements) {
    byId("notice").replaceChildren(text, " ", ...elements);
    byId("notice").hidden = !text;
}

const store = new Store(notice);
const settings = new Settings(askModels);
const chat = new Chat(store, settings, () => conversations.draw(), notice);
const conversations = new Conversations(store, chat, notice);
const live = new Live(byId("live"), settings);

async function askModels() {
    try {
        settings.setModels(await servedModels(settings.key()));
        chat.showContext();
        notice("");
    } catch (error) {
        notice(error.message, ...(error.status === 401 ? [button("Enter a key", () => settings.open("key"))] : []));
    }
}

function showView() {
    const shown = location.hash === "#live" ? "live" : "chat";

    for (const name of ["chat", "live"]) {
        byId(name).hidden = name !== shown;
        if (name === shown)
            byId(`to-${name}`).setAttribute("aria-current", "page");
        else
            byId(`to-${name}`).removeAttribute("aria-current");
    }
    document.body.dataset.view = shown;
    live.show(shown === "live");
}

byId("skip").onclick = event => {
    event.preventDefault();
    location.hash = "#chat";
    byId("input").focus();
};
addEventListener("hashchange", showView);
addEventListener("storage", event => {
    const id = store.follow(event.key, event.newValue);
    if (id === null)
        return;
    conversations.draw();
    if (id === chat.conversation.id)
        chat.refresh();
});

chat.show(store.list()[0] ?? store.create());
conversations.draw();
showView();
askModels();
if (await loadMarkdown())
    chat.refresh();
