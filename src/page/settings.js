// settings.js - the user's settings: model, sampling, API key, appearance. Settings are stored in this browser, except
// the API key, which is kept until the tab is closed (sessionStorage).
import {byId, make} from "./dom.js";
import {libraries} from "./libraries.js";

const STORED = "gallop.settings", KEY = "gallop.key";

// Sampling fields of a request. An empty field is not sent, so that the default of the model or the server applies.
// Fields with `more` are shown when the user opens "More sampling".
const SAMPLING = [
    {name: "max_completion_tokens", label: "Maximum tokens of an answer", min: 1, max: 2147483647, step: 1},
    {name: "temperature", label: "Temperature", min: 0, max: 100, step: "any",
        hint: "0: always the most likely token"},
    {name: "top_p", label: "Top p", min: 0, max: 1, step: "any",
        hint: "only the most likely tokens with this total probability"},
    {name: "top_k", label: "Top k", min: -1, max: 2147483647, step: 1, hint: "only this many of the most likely tokens; 0: all"},
    {name: "min_p", label: "Min p", min: 0, max: 1, step: "any",
        hint: "only tokens at least this likely, relative to the most likely one"},
    {name: "repetition_penalty", label: "Repetition penalty", min: 0, max: 100, step: "any", hint: "1: no penalty"},
    {name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: "any"},
    {name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: "any"},
    {name: "typical_p", label: "Typical p", min: 0, max: 1, step: "any", more: true,
        hint: "only the tokens nearest to the expected information, up to this total probability; 1: all"},
    {name: "top_n_sigma", label: "Top n sigma", min: -1, max: 1000000, step: "any", more: true,
        hint: "only logits at most this many standard deviations below the largest; 0: all"},
    {name: "xtc_probability", label: "XTC probability", min: 0, max: 1, step: "any", more: true,
        hint: "with this chance only the least likely of the likely tokens is kept"},
    {name: "xtc_threshold", label: "XTC threshold", min: 0, max: 1, step: "any", more: true,
        hint: "least probability of a likely token"},
    {name: "dry_multiplier", label: "DRY multiplier", min: 0, max: 1000000, step: "any", more: true,
        hint: "penalty of tokens that go on with a repetition; 0: none"},
    {name: "dry_base", label: "DRY base", min: 1, max: 1000000, step: "any", more: true,
        hint: "factor of the penalty for each token of the repetition"},
    {name: "dry_allowed_length", label: "DRY allowed length", min: 0, max: 1024, step: 1, more: true,
        hint: "shortest repetition with a penalty, in tokens"},
    {name: "dry_penalty_last_n", label: "DRY last n", min: -1, max: 2147483647, step: 1, more: true,
        hint: "only repetitions among this many last tokens; -1: all"},
    {name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1,
        hint: "the same seed gives the same answer"},
];
const THEMES = [["", "System"], ["light", "Light"], ["dark", "Dark"]];

function read() {
    try {
        const stored = JSON.parse(localStorage.getItem(STORED));
        return stored && typeof stored === "object" ? stored : {};
    } catch {
        return {};
    }
}

function labelled(text, input, hint = "") {
    input.id = `set-${input.name}`;
    const parts = [make("label", {htmlFor: input.id, textContent: text}), input];
    if (hint) {
        input.setAttribute("aria-describedby", `${input.id}-hint`);
        parts.push(make("span", {className: "hint", id: `${input.id}-hint`, textContent: hint}));
    }
    return make("div", {className: "field"}, ...parts);
}

function numbered({label, hint, more, ...rest}) {
    return labelled(label, make("input", {type: "number", placeholder: "default", inputMode: "decimal", ...rest}), hint);
}

export class Settings {
    // ONCHANGE() is called when a setting changes.
    constructor(onchange) {
        this.onchange = onchange;
        this.values = read();
        this.models = [];
        this.dialog = byId("settings");
        this.form = byId("settings-form");
        this.#build();
        this.#about();
        this.#apply();
        byId("open-settings").onclick = () => this.open();
        byId("reset").onclick = () => { this.values = {}; this.#fill(); this.#keep(); };
        this.form.onsubmit = event => { event.preventDefault(); this.dialog.close(); };
        this.form.onchange = () => this.#take();
        this.form.addEventListener("invalid", event => event.target.closest("details")?.setAttribute("open", ""), true);
    }

    #build() {
        this.model = make("select", {name: "model"});
        this.theme = make("select", {name: "theme"},
            ...THEMES.map(([value, textContent]) => make("option", {value, textContent})));
        byId("fields").append(
            labelled("Model", this.model),
            ...SAMPLING.filter(field => !field.more).map(numbered),
            make("details", {className: "more"}, make("summary", {textContent: "More sampling"}),
                make("div", {className: "fields"}, ...SAMPLING.filter(field => field.more).map(numbered))),
            labelled("Stop at", make("textarea", {name: "stop", rows: 2}), "texts that end an answer, one a line"),
            labelled("API key", make("input", {name: "key", type: "password", autocomplete: "off"}),
                "kept until this tab is closed"),
            labelled("Appearance", this.theme));
    }

    #about() {
        byId("about").append(
            make("p", {textContent: "Gallop, Apache-2.0. Conversations are kept in this browser only."}),
            libraries.length ? make("p", {textContent: "With these libraries:"}) : make("p", {textContent:
                "Built without libraries for Markdown, code and charts: answers are shown as plain text."}),
            make("ul", {}, ...libraries.map(([name, version, licence]) => make("li", {}, `${name} ${version}, `,
                make("a", {href: `page/licence/${name.replace(/\.js$/, "")}.txt`, textContent: licence})))));
    }

    #input(name) {
        return this.form.elements.namedItem(name);
    }

    #fill() {
        for (const name of [...SAMPLING.map(field => field.name), "stop", "theme"])
            this.#input(name).value = this.values[name] ?? "";
        this.model.replaceChildren(...this.models.map(name => make("option", {value: name, textContent: name})));
        this.model.value = this.modelName();
        this.#input("key").value = this.key();
    }

    #take() {
        for (const {name} of SAMPLING) {
            const input = this.#input(name);
            if (input.validity.valid && input.value !== "")
                this.values[name] = input.valueAsNumber;
            else if (input.value === "" && !input.validity.badInput)
                delete this.values[name];
        }
        this.values.stop = this.#input("stop").value;
        this.values.theme = this.theme.value;
        this.values.model = this.model.value;
        this.#keep();
        this.#setKey(this.#input("key").value.trim());
    }

    #keep() {
        try {
            localStorage.setItem(STORED, JSON.stringify(this.values));
        } catch {
            // storing failed, so the settings apply only until the page is closed
        }
        this.#apply();
    }

    #apply() {
        const theme = this.values.theme;

        document.documentElement.dataset.theme = ["light", "dark"].includes(theme) ? theme : "";
        byId("model").textContent = this.modelName();
    }

    #setKey(key) {
        if (key === this.key())
            return;
        try {
            sessionStorage.setItem(KEY, key);
        } catch {
            this.unkept = key;
        }
        this.onchange();
    }

    key() {
        try {
            return this.unkept ?? sessionStorage.getItem(KEY) ?? "";
        } catch {
            return this.unkept ?? "";
        }
    }

    // Sets the models that the user can choose. MODELS: the result of servedModels().
    setModels(models) {
        this.models = models.map(model => model.name);
        this.lengths = new Map(models.map(model => [model.name, model.contextLength]));
        this.#apply();
    }

    // Returns the context length of the chosen model in tokens; 0 if it is unknown.
    contextLength() {
        return this.lengths?.get(this.modelName()) ?? 0;
    }

    modelName() {
        return this.models.includes(this.values.model) ? this.values.model : this.models[0] ?? "";
    }

    // Returns an object with the request fields that the user has set.
    fields() {
        const out = {}, stop = (this.values.stop ?? "").split("\n").filter(line => line !== "");

        if (this.modelName())
            out.model = this.modelName();
        for (const {name} of SAMPLING)
            if (typeof this.values[name] === "number")
                out[name] = this.values[name];
        if (stop.length)
            out.stop = stop;
        return out;
    }

    // Opens the settings dialog. If NAME is given, the field NAME gets the focus.
    open(name) {
        this.#fill();
        this.dialog.showModal();
        if (name)
            this.#input(name).focus();
    }
}
