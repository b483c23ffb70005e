// A server with all that the conformance suite asks a server for, on the TypeScript SDK's packages: what stands behind
// drowse when the suite's server scenarios are run against it.
//
//   node everything-server.mjs                   on standard input and output
//   node everything-server.mjs --http PORT       on http://127.0.0.1:PORT/mcp; 0 takes a free port, the address is on stderr
//   … --legacy-only | --modern-only              only 2025-11-25 and before, or only 2026-07-28

import { parseArgs } from 'node:util';

import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';

import { Changes, createServer } from './everything-features.mjs';

const { values } = parseArgs({
    options: { http: { type: 'string' }, 'legacy-only': { type: 'boolean' }, 'modern-only': { type: 'boolean' } }
});
const legacy = !values['modern-only'];
const modern = !values['legacy-only'];
if (!legacy && !modern) throw new Error('--legacy-only and --modern-only exclude each other');

const changes = new Changes();
const create = () => createServer(changes);
if (values.http !== undefined) {
    const { serveHttp } = await import('./everything-http.mjs');
    serveHttp(Number(values.http), { create, changes, legacy, modern });
} else if (modern) {
    serveStdio(create, { legacy: legacy ? 'serve' : 'reject' });
} else {
    await create().connect(new StdioServerTransport());
}
