// charts.js - line and bar charts with Chart.js. Each chart also has a table of the same numbers, for screen readers
// and for servers that were built without Chart.js.
import {make} from "./dom.js";
import {library} from "./library.js";

const ROWS = 10; // number of latest samples in the table of a line chart

// Returns the colours of a chart from the style sheet, so that charts follow the page's dark or light theme.
function colours(element) {
    const style = getComputedStyle(element);
    return {text: style.color, grid: style.borderTopColor, series: [style.fill, style.stroke]};
}

function fillTable(table, head, rows) {
    table.replaceChildren(
        make("thead", {}, make("tr", {}, ...head.map(text => make("th", {scope: "col", textContent: text})))),
        make("tbody", {}, ...rows.map(row => make("tr", {}, ...row.map(text => make("td", {textContent: text}))))));
}

class Chart {
    constructor(title) {
        this.canvas = make("canvas", {role: "img", "aria-label": `${title}: the table below has the numbers`});
        this.box = make("div", {className: "canvas", hidden: true}, this.canvas);
        this.caption = make("span", {className: "figures"});
        this.table = make("table");
        this.details = make("details", {open: true}, make("summary", {textContent: "As a table"}),
            make("div", {className: "wide", tabIndex: 0, role: "group", "aria-label": `${title}, table`}, this.table));
        this.element = make("figure", {className: "chart"},
            make("figcaption", {}, make("strong", {textContent: title}), " ", this.caption), this.box, this.details);
        this.#load();
    }

    async #load() {
        this.library = await library("chart.js");
        if (!this.library)
            return;
        this.details.open = false;
        this.box.hidden = false;
        this.redraw?.();
    }

    // Draws DATA if Chart.js is available.
    drawChart(type, data, options) {
        this.redraw = () => this.drawChart(type, data, options);
        if (!this.library || !this.element.isConnected)
            return;
        const {text, grid, series} = colours(this.element);
        data.datasets.forEach((set, i) => Object.assign(set, {borderColor: series[i], backgroundColor: series[i]}));
        const axis = {ticks: {color: text, maxRotation: 0, autoSkipPadding: 12}, grid: {color: grid}};
        this.chart ??= new this.library(this.canvas, {type, options: {
            animation: false, responsive: true, maintainAspectRatio: false, events: ["mousemove", "mouseout", "touchstart"],
        }});
        Object.assign(this.chart.options, {
            scales: {x: {...axis, ...options.x}, y: {...axis, beginAtZero: true, suggestedMax: 1}},
            plugins: {legend: {display: data.datasets.length > 1, labels: {color: text, boxWidth: 12}}},
        });
        this.chart.data = data;
        this.chart.update("none");
    }
}

export class LineChart extends Chart {
    constructor(title, names) {
        super(title);
        this.names = names;
    }

    // Draws SERIES[i][k], the value of line i at SECONDS[k]. SECONDS are relative to now, so they are negative.
    // SHOW(number) returns the text for a number.
    draw(seconds, series, show) {
        const rows = seconds.map((s, k) => [`${s} s`, ...series.map(values => show(values[k]))]);

        if (this.details.open)
            fillTable(this.table, ["Time", ...this.names], rows.slice(-ROWS).reverse());
        this.drawChart("line", {
            labels: seconds.map(s => `${s} s`),
            datasets: series.map((data, i) => ({label: this.names[i], data, pointRadius: 0, borderWidth: 2,
                borderDash: i ? [5, 4] : []})),
        }, {});
    }
}

export class BarChart extends Chart {
    constructor(title, show) {
        super(title);
        this.show = show;
    }

    // Draws BUCKETS, as metrics.js returns them, without empty buckets at both ends. CAPTION is shown beside the title.
    draw(buckets, caption) {
        const filled = buckets.map(b => b.count > 0), first = filled.indexOf(true), last = filled.lastIndexOf(true);
        const used = first < 0 ? [] : buckets.slice(first, last + 1);
        const names = used.map(b => Number.isFinite(b.to) ? `≤ ${this.show(b.to)}` : `> ${this.show(b.from)}`);

        this.caption.textContent = used.length ? caption : "nothing yet";
        if (this.details.open)
            fillTable(this.table, ["Time", "Answers"], used.map((b, i) => [names[i], String(b.count)]));
        this.drawChart("bar", {
            labels: names,
            datasets: [{label: "Answers", data: used.map(b => b.count), categoryPercentage: 1, barPercentage: 0.95}],
        }, {});
    }
}
