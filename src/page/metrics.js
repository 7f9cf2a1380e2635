// metrics.js - reads metrics in Prometheus' text format, and computes quantiles of their histograms.
//
// Samples of the same name with different labels (several engines) are added up; only the label le is kept apart.
// Specification: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const OPERATOR = /^gallop:operator_(seconds|bytes|flops)_total$/, OPERATOR_NAME = /(?:^|,)operator="([^"]*)"/;
const LE = /(?:^|,)\s*le="([^"]*)"/;

function number(text) {
    return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

// Returns {value, bucket, operator}. value: Map of name to number. bucket: Map of histogram name to a Map of upper
// bound to the number of values at or below this bound. operator: Map of operator name to {seconds, bytes, flops}.
export function readMetrics(text) {
    const value = new Map(), bucket = new Map(), operator = new Map();

    for (const line of text.split("\n")) {
        const match = SAMPLE.exec(line), x = match && number(match[3]);
        if (!match || Number.isNaN(x))
            continue;
        const figure = OPERATOR.exec(match[1])?.[1], of = figure && OPERATOR_NAME.exec(match[2] ?? "")?.[1];
        if (of) {
            const all = operator.get(of) ?? {seconds: 0, bytes: 0, flops: 0};
            all[figure] += x;
            operator.set(of, all);
            continue;
        }
        const name = match[1].replace(/^vllm:/, ""), le = name.endsWith("_bucket") && LE.exec(match[2] ?? "");
        if (!le) {
            value.set(name, (value.get(name) ?? 0) + x);
            continue;
        }
        const base = name.slice(0, -"_bucket".length), bound = number(le[1]);
        if (!bucket.has(base))
            bucket.set(base, new Map());
        bucket.get(base).set(bound, (bucket.get(base).get(bound) ?? 0) + x);
    }
    return {value, bucket, operator};
}

// Returns the histogram NAME as an ascending list of {from, to, count}, minus the counts of the earlier metrics BEFORE.
export function histogram(metrics, name, before = null) {
    const now = metrics.bucket.get(name), then = before?.bucket.get(name);
    const out = [];
    let from = 0, below = 0;

    for (const to of [...(now?.keys() ?? [])].sort((a, b) => a - b)) {
        const total = now.get(to) - (then?.get(to) ?? 0);
        out.push({from, to, count: Math.max(0, total - below)});
        from = to;
        below = total;
    }
    return out;
}

// Returns the quantile Q (0 to 1) of BUCKETS, interpolated within a bucket; NaN if all buckets are empty. In the last
// bucket, which has no upper bound, the result is its lower bound.
export function quantile(buckets, q) {
    const total = buckets.reduce((sum, b) => sum + b.count, 0);
    let left = q * total;

    for (const {from, to, count} of buckets) {
        if (count > 0 && left <= count)
            return Number.isFinite(to) ? from + (to - from) * left / count : from;
        left -= count;
    }
    return NaN;
}
