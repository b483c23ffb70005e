// The everything server over HTTP: requests of 2026 each on an instance of their own, those of 2025 in sessions with a
// store of events, so that a stream which ended can be resumed.

import { randomUUID } from 'node:crypto';
import { createServer as listener } from 'node:http';

import {
    localhostHostValidation,
    localhostOriginValidation,
    NodeStreamableHTTPServerTransport,
    toNodeHandler,
    toWebRequest
} from '@modelcontextprotocol/node';
import { createMcpHandler, isInitializeRequest, isLegacyRequest } from '@modelcontextprotocol/server';

/** How soon a client of 2025 comes back to a stream that ended. */
const RETRY_MS = 200;
/** How many events of one session are kept. */
const EVENTS = 1000;

/** The events of one session, in order; their ids count them. */
class Events {
    #kept = [];
    #next = 0;

    async storeEvent(stream, message) {
        const id = String(this.#next++);
        this.#kept.push({ id, stream, message });
        if (this.#kept.length > EVENTS) this.#kept.shift();
        return id;
    }

    async getStreamIdForEventId(id) {
        return this.#kept.find(event => event.id === id)?.stream;
    }

    async replayEventsAfter(last, { send }) {
        const from = this.#kept.findIndex(event => event.id === last);
        if (from < 0) throw new Error('no such event');
        const { stream } = this.#kept[from];
        for (const event of this.#kept.slice(from + 1)) {
            // An event without a message only says where the stream begins.
            if (event.stream === stream && Object.keys(event.message).length > 0) await send(event.id, event.message);
        }
        return stream;
    }
}

const refuse = (response, status, code, message) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }));
};

/** What answers requests of 2025. */
function sessions(create) {
    const transports = new Map();
    return async (request, response, body) => {
        const id = request.headers['mcp-session-id'];
        const known = transports.get(id);
        if (known) return known.handleRequest(request, response, body);
        if (id !== undefined) return refuse(response, 404, -32001, 'There is no such session');
        const messages = Array.isArray(body) ? body : [body];
        if (!messages.some(isInitializeRequest)) return refuse(response, 400, -32000, 'A session begins with initialize');
        const transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            eventStore: new Events(),
            retryInterval: RETRY_MS,
            onsessioninitialized: id => void transports.set(id, transport),
            onsessionclosed: id => void transports.delete(id)
        });
        await create().connect(transport);
        return transport.handleRequest(request, response, body);
    };
}

/** Serves on that port of the loopback interface until the process ends, and says where. */
export function serveHttp(port, { create, changes, legacy, modern }) {
    const old = sessions(create);
    const handler = createMcpHandler(create, { legacy: 'reject' });
    const current = toNodeHandler(handler);
    // Instances of single requests cannot tell those who listen.
    changes.live.add(what => (what === 'tool' ? handler.notify.toolsChanged() : handler.notify.promptsChanged()));

    const isHost = localhostHostValidation();
    const isOrigin = localhostOriginValidation();
    const answer = async (request, response) => {
        if (!isHost(request, response) || !isOrigin(request, response)) return;
        if (new URL(request.url, 'http://localhost').pathname !== '/mcp') return refuse(response, 404, -32000, 'Nothing here');
        const whole = await toWebRequest(request);
        const body = request.method === 'POST' ? await whole.clone().json().catch(() => undefined) : undefined;
        const isOld = legacy && (!modern || (await isLegacyRequest(whole, body)));
        await (isOld ? old : current)(request, response, body);
    };
    const server = listener((request, response) => {
        answer(request, response).catch(error => {
            console.error(error);
            response.destroy();
        });
    });
    server.listen(port, '127.0.0.1', () => console.error(`serving http://127.0.0.1:${server.address().port}/mcp`));
}
