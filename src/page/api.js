// api.js - calls the server's API: sends requests, reads streamed answers, and turns errors into sentences.
//
// URLs are relative to the page, so that the page also works under a path of a reverse proxy.
import {events} from "./events.js";

// A failed request. `status` is the HTTP status, or 0 if the server could not be reached.
export class ApiError extends Error {
    constructor(message, status = 0) {
        super(message);
        this.status = status;
    }
}

function sentence(status, text, retryAfter) {
    let message;

    try {
        const error = JSON.parse(text).error;
        message = typeof error === "string" ? error : error.message;
    } catch {
        message = text.length > 0 && text.length < 300 && !text.startsWith("<") ? text.trim() : "";
    }
    message ||= `The server answered with status ${status}.`;
    return retryAfter && /^\d+$/.test(retryAfter) ? `${message} Try again in ${retryAfter} s.` : message;
}

// Returns the response to a POST of BODY as JSON or, without BODY, to a GET. Throws ApiError, or AbortError by SIGNAL.
async function request(path, {key = "", body, signal} = {}) {
    const headers = {};
    let response;

    if (key)
        headers.Authorization = `Bearer ${key}`;
    if (body)
        headers["Content-Type"] = "application/json";
    try {
        response = await fetch(path, {
            method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal,
            cache: "no-store", credentials: "same-origin", redirect: "error",
        });
    } catch (error) {
        if (error.name === "AbortError")
            throw error;
        throw new ApiError("The server cannot be reached.");
    }
    if (!response.ok) {
        const text = await response.text().catch(() => "");
        throw new ApiError(sentence(response.status, text, response.headers.get("Retry-After")), response.status);
    }
    return response;
}

// Returns the server's models as {name, contextLength}; contextLength is 0 if the server does not report it.
export async function servedModels(key) {
    const response = await request("v1/models", {key});

    return (await response.json()).data.map(model => ({
        name: String(model.id),
        contextLength: Number.isSafeInteger(model.max_model_len) ? model.max_model_len : 0,
    }));
}

export async function metricsText(key, signal) {
    return (await request("metrics", {key, signal})).text();
}

// Yields the chunks of a streamed chat completion as objects. Throws an error that the stream reports.
export async function* chatChunks(body, key, signal) {
    const response = await request("v1/chat/completions", {key, body, signal});

    for await (const data of events(response.body)) {
        if (data === "[DONE]")
            return;
        let chunk;
        try {
            chunk = JSON.parse(data);
        } catch {
            throw new ApiError("The server sent an event that is not JSON.", response.status);
        }
        if (chunk.error)
            throw new ApiError(sentence(chunk.error.code ?? response.status, data), response.status);
        yield chunk;
    }
}
