// events.js - reads the server-sent events of a response body, and yields the data of each event as a string.
//
// Comments (pings) and fields other than data are ignored. An incomplete event at the end of the stream is dropped.
// Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

export async function* events(body) {
    const reader = body.getReader(), decoder = new TextDecoder();
    let rest = "", data = [];

    try {
        for (;;) {
            const {value, done} = await reader.read();
            if (done)
                return;
            const lines = (rest + decoder.decode(value, {stream: true})).split(/\r\n|\n|\r(?!$)/);
            rest = lines.pop();
            for (const line of lines) {
                if (line === "" && data.length) {
                    yield data.join("\n");
                    data = [];
                } else if (line.startsWith("data:")) {
                    data.push(line.slice(line[5] === " " ? 6 : 5));
                }
            }
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
