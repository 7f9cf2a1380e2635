// events.js - server-sent events of a response: the data of each event, as a string.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream Comments (pings) and fields
// other than data are ignored. An event that the end of the stream cuts off is dropped.

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
