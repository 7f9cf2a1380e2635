// live.js - the live view of the server's current work. It requests the metrics once a second while it is visible.
import {metricsText} from "./api.js";
import {make} from "./dom.js";
import {BarChart, LineChart} from "./charts.js";
import {histogram, quantile, readMetrics} from "./metrics.js";

const PERIOD_MS = 1000;
const KEPT = 120;  // number of samples that a line chart shows
const RATE = 5;    // a rate is computed over this many sample periods
const RATE_MS = PERIOD_MS / 2; // minimum time for a rate, because two samples can come at once after a pause
const RECENT = 60; // number of samples in the last minute
const WAITING = "gallop:operator_waiting_seconds_total";

function whole(x) {
    return Number.isFinite(x) ? Math.round(x).toLocaleString("en") : "–";
}

function percent(x) {
    return Number.isFinite(x) ? `${(100 * x).toFixed(1)} %` : "–";
}

function rate(x) {
    return Number.isFinite(x) ? x.toFixed(x < 10 ? 2 : 1) : "–";
}

export function duration(s) {
    return Number.isFinite(s) ? s < 1 ? `${Number((1000 * s).toPrecision(3))} ms` : `${Number(s.toPrecision(3))} s` : "–";
}

// The tiles at the top of the view, each of which shows one figure: a name, and a function that returns the text of the
// figure from the metrics and the Live object.
const TILES = [
    ["Running", m => whole(m.value.get("num_requests_running"))],
    ["Waiting", m => whole(m.value.get("num_requests_waiting"))],
    ["KV cache in use", m => percent(m.value.get("kv_cache_usage_perc"))],
    ["Prefix cache hits", m => percent(m.value.get("prefix_cache_hits_total") / m.value.get("prefix_cache_queries_total"))],
    ["Output tokens/s", (m, view) => rate(view.rate("generation_tokens_total"))],
    ["Prompt tokens/s", (m, view) => rate(view.rate("prompt_tokens_total"))],
    ["Answers", m => whole(m.value.get("request_success_total"))],
    ["Preempted", m => whole(m.value.get("num_preemptions_total"))],
];
const HISTOGRAMS = [
    ["time_to_first_token_seconds", "Time to first token"],
    ["request_time_per_output_token_seconds", "Time per output token"],
];

// A table with a row for each kind of operator: its share of the time between two samples, bytes and operations per
// second, and these as a share of the machine's roofline, if the server has measured it.
class Operators {
    constructor() {
        this.rows = make("tbody");
        this.element = make("figure", {className: "chart", hidden: true},
            make("figcaption", {}, make("strong", {textContent: "Operators"}), " ", make("span", {className: "figures", textContent: "of the last seconds"})),
            make("div", {className: "wide", tabIndex: 0, role: "group", "aria-label": "Operators, table"}, make("table", {},
                make("thead", {}, make("tr", {}, ...["Operator", "Time", "GB/s", "GFLOP/s", "Share of the roof"].map(
                    textContent => make("th", {scope: "col", textContent})))), this.rows)));
    }

    draw(now, then) {
        const counter = (sample, name, operator) => sample.operator.get(operator)?.[name] ?? 0;
        // A counter decreases when the server was restarted; the growth is then 0.
        const grown = (name, operator) => Math.max(0, counter(now, name, operator) - counter(then, name, operator));
        const names = [...now.operator.keys()];
        // Threads also spend time waiting for each other, which is not part of any operator.
        const waited = Math.max(0, now.value.get(WAITING) - then.value.get(WAITING)) || 0;
        const all = names.reduce((sum, name) => sum + grown("seconds", name), waited);
        const bandwidth = now.value.get("gallop:roof_bytes_per_second"), flops = now.value.get("gallop:roof_flops_per_second");

        if (!(all > 0))
            return; // nothing was computed, so the last table stays
        this.element.hidden = false;
        this.rows.replaceChildren(...names.map(name => {
            const s = grown("seconds", name), read = grown("bytes", name) / s, done = grown("flops", name) / s;
            // Weights in the processor's caches are read faster than from memory, so the share is capped at 1.
            const least = Math.min(1, Math.max(read / bandwidth, done / flops));
            return make("tr", {}, make("th", {scope: "row", textContent: name}), ...[percent(s / all),
                read > 0 ? rate(read / 1e9) : "–", done > 0 ? rate(done / 1e9) : "–", least > 0 ? percent(least) : "–",
            ].map(textContent => make("td", {textContent})));
        }));
        if (waited > 0)
            this.rows.append(make("tr", {}, make("th", {scope: "row", textContent: "waiting"}),
                ...[percent(waited / all), "–", "–", "–"].map(textContent => make("td", {textContent}))));
    }
}

export class Live {
    constructor(element, settings) {
        Object.assign(this, {element, settings, samples: []});
        document.addEventListener("visibilitychange", () => this.#schedule());
    }

    #build() {
        this.error = make("p", {className: "notice", role: "alert", hidden: true});
        this.tiles = TILES.map(() => make("dd", {textContent: "–"}));
        this.span = make("select", {id: "span"},
            make("option", {value: "", textContent: "since the server's start"}),
            make("option", {value: "recent", textContent: "of the last minute"}));
        this.span.onchange = () => this.#draw();
        this.rates = new LineChart("Tokens per second", ["Output", "Prompt"]);
        this.queue = new LineChart("Requests", ["Running", "Waiting"]);
        this.operators = new Operators();
        this.bars = HISTOGRAMS.map(([, title]) => new BarChart(title, duration));
        this.element.append(this.error,
            make("dl", {className: "tiles"}, ...TILES.map(([name], i) => make("div", {},
                make("dt", {textContent: name}), this.tiles[i]))),
            make("div", {className: "charts"}, this.rates.element, this.queue.element),
            make("div", {className: "charts"}, this.operators.element),
            make("p", {className: "field"}, make("label", {htmlFor: "span", textContent: "Times"}), this.span),
            make("div", {className: "charts"}, ...this.bars.map(bar => bar.element)));
    }

    show(shown) {
        this.shown = shown;
        if (shown && !this.tiles)
            this.#build();
        this.#schedule();
    }

    #schedule() {
        clearTimeout(this.timer);
        if (this.shown && !document.hidden)
            this.#sample();
    }

    async #sample() {
        const turn = this.turn = {};

        try {
            const metrics = readMetrics(await metricsText(this.settings.key(), AbortSignal.timeout(10 * PERIOD_MS)));
            this.samples.push({at: performance.now(), ...metrics});
            this.samples.splice(0, this.samples.length - KEPT);
            this.error.hidden = true;
            this.#draw();
        } catch (error) {
            const text = error.name === "TimeoutError" || error.name === "AbortError"
                ? "The server does not respond." : error.message;
            if (this.error.hidden || this.error.textContent !== text)
                this.error.textContent = text;
            this.error.hidden = false;
        }
        if (turn === this.turn && this.shown && !document.hidden)
            this.timer = setTimeout(() => this.#sample(), PERIOD_MS);
    }

    // Returns the growth per second of the counter NAME over up to RATE periods before the sample AT, or NaN.
    rate(name, at = this.samples.length - 1) {
        const now = this.samples[at], then = this.samples[Math.max(0, at - RATE)];
        const grown = now.value.get(name) - then.value.get(name);

        return now.at - then.at < RATE_MS ? NaN : Math.max(0, grown) / (now.at - then.at) * 1000;
    }

    #draw() {
        const last = this.samples.at(-1);

        if (!last)
            return;
        TILES.forEach(([, text], i) => { this.tiles[i].textContent = text(last, this); });
        const each = f => this.samples.map((sample, i) => f(sample, i));
        const seconds = each(sample => Math.round((sample.at - last.at) / 1000));
        this.rates.draw(seconds, [each((s, i) => this.rate("generation_tokens_total", i)),
            each((s, i) => this.rate("prompt_tokens_total", i))], rate);
        this.queue.draw(seconds, [each(s => s.value.get("num_requests_running")),
            each(s => s.value.get("num_requests_waiting"))], whole);
        this.operators.draw(last, this.samples[Math.max(0, this.samples.length - 1 - RATE)]);
        const before = this.span.value ? this.samples.at(-RECENT - 1) ?? this.samples[0] : null;
        HISTOGRAMS.forEach(([name], i) => {
            const buckets = histogram(last, name, before);
            const parts = [0.5, 0.95, 0.99].map(q => `p${100 * q} ${duration(quantile(buckets, q))}`);
            this.bars[i].draw(buckets, parts.join(", "));
        });
    }
}
