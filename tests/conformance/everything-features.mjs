// What the everything server offers: the names that the conformance suite asks for, on one McpServer for both eras.
//
// A tool that needs something of its client returns `inputRequired(…)`. To a client of 2026 that is the result; to one
// of 2025 the SDK sends the requests and calls the tool again with the answers. So no tool has to know its era.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
    acceptedContent,
    createRequestStateCodec,
    fromJsonSchema,
    inputRequired,
    inputResponse,
    McpServer,
    ResourceNotFoundError,
    ResourceTemplate
} from '@modelcontextprotocol/server';

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/** One black pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==';
/** A WAV file without samples. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

/** States of interactions are signed: every instance in this process knows the key, and nobody else. */
const states = createRequestStateCodec({ key: randomBytes(32) });

/**
 * What changes while the server runs, shared by all instances: whether the tool and the prompt that come and go are
 * there. `live` holds what is told of it.
 */
export class Changes {
    tool = false;
    prompt = false;
    live = new Set();

    toggle(what) {
        this[what] = !this[what];
        for (const listener of this.live) listener(what, this[what]);
    }
}

const text = words => ({ content: [{ type: 'text', text: words }] });
const image = () => ({ type: 'image', data: PNG, mimeType: 'image/png' });
const object = (properties = {}, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const string = (description, more = {}) => ({ type: 'string', description, ...more });

/** A new instance. */
export function createServer(changes) {
    const server = new McpServer(
        { name: 'everything', title: 'Everything server of the conformance runs', version: '1.0.0' },
        {
            instructions: 'Has whatever the conformance suite asks a server for.',
            capabilities: {
                tools: { listChanged: true },
                prompts: { listChanged: true },
                resources: { listChanged: true, subscribe: true },
                completions: {},
                logging: {}
            },
            requestState: { verify: states.verify }
        }
    );
    // The first tool of the list is the one that is called without arguments when headers are tried out.
    addContents(server);
    addReporting(server);
    addQuestions(server);
    addRounds(server);
    addTriggers(server, changes);
    addSchemas(server);
    addResources(server);
    addPrompts(server);
    addWhatComesAndGoes(server, changes);
    return server;
}

function addTool(server, name, description, handler, schema = object()) {
    const inputSchema = fromJsonSchema(schema);
    server.registerTool(name, { description, inputSchema }, (given, ctx) => handler(ctx, given));
}

// ---- results of each kind of content

function addContents(server) {
    const give = (name, what, content) => addTool(server, name, `Gives ${what}`, () => ({ content }));
    const resource = (uri, mimeType, body) => ({ type: 'resource', resource: { uri, mimeType, text: body } });
    give('test_simple_text', 'a text', [{ type: 'text', text: 'A plain sentence.' }]);
    give('test_image_content', 'an image', [image()]);
    give('test_audio_content', 'a sound', [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }]);
    give('test_embedded_resource', 'a resource', [resource('test://inside', 'text/plain', 'What is inside.')]);
    give('test_multiple_content_types', 'a text, an image and a resource', [
        { type: 'text', text: 'Three in one.' },
        image(),
        resource('test://mixed', 'application/json', '{"three":3}')
    ]);
    addTool(server, 'test_error_handling', 'Fails', () => ({ ...text('This always fails.'), isError: true }));
}

// ---- what a call says while it runs

function addReporting(server) {
    addTool(server, 'test_tool_with_progress', 'Tells its progress', async ctx => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (const progress of [0, 50, 100]) {
            if (progress) await sleep(50);
            if (progressToken === undefined) continue;
            const params = { progressToken, progress, total: 100, message: `${progress} of 100` };
            await ctx.mcpReq.notify({ method: 'notifications/progress', params });
        }
        return text('Done.');
    });
    const logs = async ctx => {
        for (const step of ['begins', 'goes on', 'ends']) {
            await ctx.mcpReq.log('info', `The call ${step}.`, 'everything');
            await sleep(50);
        }
        return text('Logged.');
    };
    addTool(server, 'test_tool_with_logging', 'Logs three messages', logs);
    addTool(server, 'test_logging_tool', 'Logs three messages, if that was asked for', logs);
    addTool(server, 'test_reconnection', 'Ends the stream of its call, and answers after the client came back', async ctx => {
        await sleep(100);
        ctx.http?.closeSSE?.();
        // Long enough for what is in front of it to end the stream, too.
        await sleep(1400);
        return text('The answer, on whatever stream there is.');
    });
}

// ---- one question of a call

/** Asks for what is not answered yet, and goes on when all is. */
async function ask(ctx, inputRequests, done, state) {
    const answers = ctx.mcpReq.inputResponses;
    const views = Object.keys(inputRequests).map(key => [key, inputResponse(answers, key)]);
    if (views.every(([, view]) => view.kind !== 'missing')) return done(Object.fromEntries(views));
    const requestState = state === undefined ? {} : { requestState: await states.mint(state, ctx) };
    return inputRequired({ inputRequests, ...requestState });
}

const form = (message, requestedSchema) => inputRequired.elicit({ message, requestedSchema });
const oneField = (message, name, field = string('As you like')) => form(message, object({ [name]: field }));
const sample = (prompt, maxTokens = 100) =>
    inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens });
const told = view => JSON.stringify(view.result?.content ?? view.roots ?? { action: view.action, content: view.content });

function addQuestions(server) {
    const askOne = (name, description, question, schema) =>
        addTool(
            server,
            name,
            description,
            (ctx, given) => ask(ctx, { answer: question(given) }, ({ answer }) => text(`The client says: ${told(answer)}`)),
            schema
        );

    askOne('test_sampling', "Asks the client's model", ({ prompt }) => sample(prompt), object({ prompt: string('The question') }));
    askOne('test_missing_capability', 'Cannot do without sampling', () => sample('Are you there?'));
    askOne('test_streaming_elicitation', 'Asks for a word', () => oneField('Which word?', 'word'));
    askOne(
        'test_elicitation',
        'Asks the user for a name and an address',
        ({ message }) => form(message, object({ username: string('Your name'), email: string('Your address') })),
        object({ message: string('What the user is shown') })
    );
    askOne('test_elicitation_sep1034_defaults', 'Asks with a default for each kind of field', () =>
        form(
            'All of it has defaults.',
            object(
                {
                    name: string('A text', { default: 'John Doe' }),
                    age: { type: 'integer', description: 'A whole number', default: 30 },
                    score: { type: 'number', description: 'A number', default: 95.5 },
                    status: string('One of three', { enum: ['active', 'inactive', 'pending'], default: 'active' }),
                    verified: { type: 'boolean', description: 'Yes or no', default: true }
                },
                []
            )
        )
    );
    const titled = (...names) => names.map(name => ({ const: name, title: `The ${name} one` }));
    askOne('test_elicitation_sep1330_enums', 'Asks with each kind of choice', () =>
        form(
            'Choose.',
            object(
                {
                    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
                    titledSingle: { type: 'string', oneOf: titled('value1', 'value2', 'value3') },
                    legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['The first one', 'The second one'] },
                    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
                    titledMulti: { type: 'array', items: { anyOf: titled('value1', 'value2', 'value3') } }
                },
                []
            )
        )
    );
}

// ---- multi round-trip requests

function addRounds(server) {
    const add = (what, description, handler) =>
        addTool(server, `test_input_required_result_${what}`, description, handler);
    const says = key => answers => text(`The answer: ${told(answers[key])}`);

    add('elicitation', 'Asks for a name', ctx => {
        const user_name = oneField('What is your name?', 'name');
        return ask(ctx, { user_name }, () => {
            const name = acceptedContent(ctx.mcpReq.inputResponses, 'user_name')?.name;
            return text(typeof name === 'string' ? `Good day, ${name}.` : 'Good day.');
        });
    });
    add('sampling', "Asks the client's model", ctx =>
        ask(ctx, { capital: sample('Which city is the capital of France?') }, says('capital'))
    );
    add('list_roots', 'Asks for the roots', ctx => ask(ctx, { client_roots: inputRequired.listRoots() }, says('client_roots')));
    const confirm = () => oneField('Shall it be done?', 'ok', { type: 'boolean' });
    add('request_state', 'Asks, and wants its state back', ctx =>
        ask(
            ctx,
            { confirm: confirm() },
            () => text(ctx.mcpReq.requestState()?.for === 'request_state' ? 'state-ok' : 'There is no state.'),
            { for: 'request_state' }
        )
    );
    add('tampered_state', 'Asks, and refuses a state that is not its own', ctx =>
        ask(ctx, { confirm: confirm() }, says('confirm'), { for: 'tampered_state' })
    );
    add('multiple_inputs', 'Asks for three things at once', ctx =>
        ask(
            ctx,
            {
                user_name: oneField('What is your name?', 'name'),
                greeting: sample('Write a greeting.', 50),
                client_roots: inputRequired.listRoots()
            },
            answers => text(Object.values(answers).map(told).join(' ')),
            { for: 'multiple_inputs' }
        )
    );
    add('multi_round', 'Asks twice, one after the other', async ctx => {
        const before = ctx.mcpReq.requestState();
        if (before?.step !== 2) {
            const step1 = oneField('First: what is your name?', 'name');
            const first = answers => ask2(answers.step1.content?.name);
            const ask2 = async name =>
                inputRequired({
                    inputRequests: { step2: oneField('Second: which colour do you like?', 'color') },
                    requestState: await states.mint({ step: 2, name }, ctx)
                });
            return ask(ctx, { step1 }, first, { step: 1 });
        }
        const step2 = oneField('Second: which colour do you like?', 'color');
        return ask(ctx, { step2 }, answers => text(`${before.name} likes ${answers.step2.content?.color}.`), before);
    });
    add('capabilities', 'Asks only for what the client can do', ctx => {
        const declared = ctx.mcpReq.envelope?.[CAPABILITIES] ?? server.server.getClientCapabilities() ?? {};
        const inputRequests = {};
        if (declared.elicitation) inputRequests.name = oneField('What is your name?', 'name');
        if (declared.sampling) inputRequests.greeting = sample('Write a greeting.', 50);
        return ask(ctx, inputRequests, answers => text(`Asked for ${Object.keys(answers).length} things.`));
    });
}

// ---- lists that change

function addTriggers(server, changes) {
    addTool(server, 'test_trigger_tool_change', 'Adds a tool, or takes it away', () => {
        changes.toggle('tool');
        return text('The tools changed.');
    });
    addTool(server, 'test_trigger_prompt_change', 'Adds a prompt, or takes it away', () => {
        changes.toggle('prompt');
        return text('The prompts changed.');
    });
}

function addWhatComesAndGoes(server, changes) {
    const tool = server.registerTool('test_fleeting_tool', { description: 'Comes and goes' }, () => text('Here now.'));
    const prompt = server.registerPrompt('test_fleeting_prompt', { description: 'Comes and goes' }, () => says('Here now.'));
    // While nobody is connected these tell nobody.
    if (!changes.tool) tool.disable();
    if (!changes.prompt) prompt.disable();
    const listener = (what, there) => {
        const one = what === 'tool' ? tool : prompt;
        if (there) one.enable();
        else one.disable();
    };
    changes.live.add(listener);
    const closed = server.server.onclose;
    server.server.onclose = () => {
        changes.live.delete(listener);
        closed?.();
    };
}

// ---- schemas

function addSchemas(server) {
    addTool(
        server,
        'test_x_mcp_header',
        'Takes an argument that is sent as a header too',
        (_, { region }) => text(`In ${region ?? 'no region'}.`),
        object({ region: string('Where', { 'x-mcp-header': 'Region' }) }, [])
    );
    addTool(server, 'json_schema_2020_12_tool', 'Has a schema with all that JSON Schema 2020-12 can say', () => text('Valid.'), {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        $defs: {
            address: { $anchor: 'place', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } }
        },
        properties: {
            name: { type: 'string' },
            address: { $ref: '#/$defs/address' },
            by: { enum: ['phone', 'email'] },
            phone: { type: 'string' },
            email: { type: 'string' }
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: { properties: { by: { const: 'phone' } }, required: ['by'] },
        then: { required: ['phone'] },
        else: { required: ['email'] },
        additionalProperties: false
    });
}

// ---- resources

function addResources(server) {
    const add = (name, uri, mimeType, body) =>
        server.registerResource(name, uri, { description: `The resource ${name}`, mimeType }, ({ href }) => ({
            contents: [{ uri: href, mimeType, ...body }]
        }));
    add('static-text', 'test://static-text', 'text/plain', { text: 'It is always the same.' });
    add('static-binary', 'test://static-binary', 'image/png', { blob: PNG });
    add('watched-resource', 'test://watched-resource', 'text/plain', { text: 'It may change.' });
    server.registerResource(
        'template',
        new ResourceTemplate('test://template/{id}/data', { list: undefined }),
        { description: 'One for each id', mimeType: 'application/json' },
        ({ href }, { id }) => ({
            contents: [{ uri: href, mimeType: 'application/json', text: JSON.stringify({ id, data: `Of ${id}.` }) }]
        })
    );
    // Of 2025; a client of 2026 listens, which the SDK sees to.
    const subscribed = new Set();
    server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
        if (!uri.startsWith('test://')) throw new ResourceNotFoundError(uri);
        subscribed.add(uri);
        return {};
    });
    server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
        subscribed.delete(uri);
        return {};
    });
}

// ---- prompts

const message = content => ({ role: 'user', content });
const says = words => ({ messages: [message({ type: 'text', text: words })] });

function addPrompts(server) {
    const add = (name, description, handler, schema) => {
        if (!schema) return server.registerPrompt(name, { description }, ctx => handler(ctx, {}));
        const argsSchema = fromJsonSchema(schema);
        return server.registerPrompt(name, { description, argsSchema }, (given, ctx) => handler(ctx, given));
    };
    add('test_simple_prompt', 'Says something', () => says('A prompt without arguments.'));
    add(
        'test_prompt_with_arguments',
        'Says what it is given',
        (_, { arg1, arg2 }) => says(`The first is '${arg1}', the second is '${arg2}'.`),
        object({ arg1: string('The first'), arg2: string('The second') })
    );
    add(
        'test_prompt_with_embedded_resource',
        'Shows a resource',
        (_, { resourceUri: uri }) => ({
            messages: [
                message({ type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'What it says.' } }),
                message({ type: 'text', text: 'Read the above.' })
            ]
        }),
        object({ resourceUri: string('Its address') })
    );
    add('test_prompt_with_image', 'Shows an image', () => ({
        messages: [message(image()), message({ type: 'text', text: 'Look at the above.' })]
    }));
    add('test_input_required_result_prompt', 'Asks what it is about', ctx => {
        const user_context = oneField('What is it about?', 'context');
        return ask(ctx, { user_context }, ({ user_context: { content } }) => says(`It is about ${content?.context}.`));
    });
    const words = ['test', 'testing', 'tested'];
    server.server.setRequestHandler('completion/complete', ({ params: { argument } }) => {
        const values = words.filter(word => word.startsWith(argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
}
