/* The board: a clock, a caller and a server, in two acts. First a script in each era, over a byte stream and then over
 * HTTP (a call wakes the server, is answered, and the server falls asleep at its deadline), checked byte for byte. Then a storm of random events and
 * mangled messages, of which only this is asked: it settles, and every key comes back exactly once. */
#include "start.h"

/* As in src/board.rs. */
enum {
    FINISH, FRESH, REQUEST, CANCEL, READABLE, TICK, LOST, EXITED, KILLED, TREE_GONE, EXPIRED, UNAUTHORIZED,
    WAKE, DEFER, UNDEFER, SHOW, IDLE, LEAVE, CLOSE, WRITABLE, NETWORK, BYTES
};
enum {
    PERSIST, SPAWN, CLOSE_INPUT, TERMINATE, KILL, RETIRE, TO_SERVER, TO_CALLER, ACCEPTED, REFUSED, RELEASED, STRAY,
    DIVERGED, NOTICED, EXCHANGE, OVER
};
/* Of the network: what it did, and what a response begins with. */
enum { HEAD, PART, END, BROKEN, JSON = 0, EVENT_STREAM = 1, COURSES = 40, OVER_HTTP = 1 << 6 };
enum { PERIOD = 10 * 1000 * 1000, STATE_IDLE = 4, STORM = 200000, FLOOD = 10000 };

struct text {
    size_t length;
    char bytes[4096];
};

static uint64_t now = 1000000;
static uint64_t chance = 88172645463325252u;
static volatile uint64_t sink;

static bool storm, legacy, http;
static int step;
static uint32_t acts;
static uint64_t act, events, accepted, answered, ended_idle, over;

static struct text to_server, to_caller, from_server, heard;
static uint64_t last_wire;
static uint64_t live[32];
static bool running, input_closed, greeted;

/* What the script answers to an exchange. */
static struct exchange {
    bool open;
    int phase;
    uint64_t status, content;
    bool session;
    struct text body;
} exchanges[COURSES];
static uint64_t current, closed_by;

/* The wire id 0 is a valid key, so the table keeps id + 1. */
static void fail(const char *why) {
    size_t length = 0;
    while (why[length]) length++;
    print("gate: ", 6);
    print(why, length);
    print("\n", 1);
    leave(1);
}

static void number(uint64_t value, struct text *out) {
    char digits[20];
    int used = 0;
    do digits[used++] = (char)('0' + value % 10); while ((value /= 10) > 0);
    while (used > 0 && out->length < sizeof out->bytes) out->bytes[out->length++] = digits[--used];
}

static void append(struct text *out, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && out->length < sizeof out->bytes; i++) out->bytes[out->length++] = bytes[i];
}

/* Appends a pattern; each `#` in it stands for `id`. */
static void say(struct text *out, const char *pattern, uint64_t id) {
    for (; *pattern; pattern++) {
        if (*pattern == '#') number(id, out);
        else append(out, pattern, 1);
    }
}

static const char *find(const struct text *in, const char *what) {
    size_t length = 0;
    while (what[length]) length++;
    for (size_t at = 0; at + length <= in->length; at++)
        if (memcmp(in->bytes + at, what, length) == 0) return in->bytes + at + length;
    return NULL;
}

static uint64_t random(uint64_t below) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance % below;
}

#define META "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}"
static const char *const HELLO = "{\"drowse\":{\"hello\":{\"versions\":[1],\"principal\":\"board\",\"verbatim\":false}}}";
static const char *const CALL =
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0041\",\"method\":\"tools/call\",\"params\":{\"_meta\":{" META
    ",\"progressToken\":\"p1\",\"dev.drowse/timeoutMs\":5000},\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}}}";

static const char *const REQUESTS[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"tools/list\",\"params\":{\"_meta\":{" META ",\"k\":[1,{}],\"progressToken\":3}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"resources/read\",\"params\":{\"uri\":\"a:b\",\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"prompts/list\",\"params\":{\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"drowse/info\",\"params\":{\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"drowse/ping\",\"params\":{\"_meta\":{" META ",\"dev.drowse/timeoutMs\":#}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"server/discover\",\"params\":{\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"drowse/status\",\"params\":{\"_meta\":{" META "}}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":#}}",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"tools/call\"}",
};
static const char *const ANSWERS[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"result\":{}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"result\":{\"tools\":[],\"ttlMs\":3}}\r\n",
    "{\"result\":{\"_meta\":{\"a\":1}},\"id\":#,\"jsonrpc\":\"2.0\"}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"error\":{\"code\":-32002,\"message\":\"no\"}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"error\":{\"code\":-32022,\"message\":\"\",\"data\":{\"supported\":[\"2026-07-28\"]}}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"result\":{\"supportedVersions\":[\"2025-03-26\",\"2026-07-28\"]}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":#,\"progress\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"ping\"}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"roots/list\"}\n",
    "[{\"jsonrpc\":\"2.0\",\"id\":#,\"result\":{}},[],{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n",
    "\xef\xbb\xbf{\"id\":\"\\ud834\\udd1e \\ud834\"}\n\n  \n",
};
static const char *const COMPLETE =
    "{\"result\":{\"resultType\":\"complete\",\"_meta\":{\"a\":1}},\"id\":#,\"jsonrpc\":\"2.0\"}\n";
static const char *const STRINGS[] = {
    "\"2026-07-28\"", "\"tools\\/call\"", "\"\\u0069dle\"", "-9223372036854775808", "18446744073709551615",
    "\"\xf0\x9d\x84\x9e \\n\\\"\"", "[[[[[[[[[[[[[[[[[[[[[[[[", "{\"a\":[1,2.5e3,true,null],\"b\":\"\"}", "",
    "\"\x01\"", "a line\r\nand another\nand one that does not fit the small buffer at all, so that it grows\n",
};
#define PICK(list) ((list)[random(sizeof(list) / sizeof *(list))])

static void mangle(struct text *text) {
    for (uint64_t n = random(4); n > 0 && text->length > 0; n--) {
        char *at = text->bytes + random(text->length);
        if (random(2)) *at = (char)random(256);
        else *at = text->bytes[random(text->length)];
    }
    if (random(8) == 0) text->length = random(text->length + 1);
}

static void check_call(void) {
    if (!find(&to_server, "\"arguments\":{\"text\":\"hi\"}")) fail("the arguments were not passed on");
    if (find(&to_server, "dev.drowse")) fail("the server saw a key of drowse's own");
    if (!find(&to_server, META) != legacy) fail("the protocol fields are those of the other era");
}

/* The same server behind a URL. It knows no probe in the legacy era, gives a session, and streams what it answers. */
static void serve_http(uint64_t id) {
    struct exchange *at = &exchanges[current];
    at->content = JSON;
    at->status = 200;
    if (find(&to_server, "\"server/discover\"")) {
        at->status = legacy ? 404 : 200;
        if (!legacy) say(&at->body, ANSWERS[6], id);
    } else if (find(&to_server, "\"initialize\"")) {
        at->session = true;
        say(&at->body, ANSWERS[7], id);
    } else if (find(&to_server, "\"tools/call\"")) {
        if (!storm) check_call();
        at->content = EVENT_STREAM;
        say(&at->body, "id: 7\ndata:\n\ndata: ", id);
        say(&at->body, ANSWERS[8], id);
        say(&at->body, "\ndata: ", id);
        say(&at->body, legacy ? ANSWERS[2] : COMPLETE, id);
        say(&at->body, "\n", id);
    } else {
        at->status = 202;
    }
}

/* The scripted server hears one whole message. */
static void serve(void) {
    const char *at = find(&to_server, "\"id\":");
    uint64_t id = 0;
    while (at && *at >= '0' && *at <= '9') id = id * 10 + (uint64_t)(*at++ - '0');
    last_wire = id;
    if (storm && http) {
        /* Mostly the truth, so that most servers are reached. */
        serve_http(id);
        if (random(8) == 0) say(&exchanges[current].body, PICK(ANSWERS), id);
    } else if (storm) {
        for (uint64_t n = random(3); n > 0; n--) {
            struct text line = {0};
            say(&line, PICK(ANSWERS), id);
            if (random(4) == 0) mangle(&line);
            append(&from_server, line.bytes, line.length);
        }
    } else if (http) {
        serve_http(id);
    } else if (find(&to_server, "\"server/discover\"")) {
        say(&from_server, legacy ? ANSWERS[4] : ANSWERS[6], id);
    } else if (find(&to_server, "\"initialize\"")) {
        say(&from_server, ANSWERS[7], id);
    } else if (find(&to_server, "\"tools/call\"")) {
        check_call();
        say(&from_server, ANSWERS[8], id);
        say(&from_server, legacy ? ANSWERS[2] : COMPLETE, id);
    }
    to_server.length = 0;
}

/* What a legacy server leaves out of its answer is supplied, so both eras end alike. */
static void expect_answer(void) {
    struct text want = {0};
    say(&want,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p1\",\"progress\":1}}\n",
        0);
    say(&want,
        "{\"result\":{\"resultType\":\"complete\",\"_meta\":{\"a\":1}},\"id\":\"a\\u0041\",\"jsonrpc\":\"2.0\"}\n",
        0);
    if (heard.length != want.length || memcmp(heard.bytes, want.bytes, want.length) != 0) {
        print(heard.bytes, heard.length);
        fail("the caller heard something else than the progress and the answer");
    }
    heard.length = 0;
}

static uint32_t request(const char *pattern, uint8_t *bytes, size_t *length) {
    struct text line = {0};
    say(&line, pattern, events);
    if (storm && random(16) == 0) mangle(&line);
    if (line.length > *length) fail("a request is too long");
    memcpy(bytes, line.bytes, line.length);
    *length = line.length;
    return REQUEST;
}

/* The network brings what the server answers to the exchange of that number. */
static uint32_t network(uint64_t number, uint64_t *argument, uint8_t *bytes, size_t *length) {
    struct exchange *at = &exchanges[number];
    uint64_t kind = (uint64_t)at->phase++;
    *argument = number | kind << 8 | at->status << 16 | at->content << 32 | (uint64_t)at->session << 35;
    if (kind > END) fail("an exchange does not end with its response");
    if (kind == PART) {
        if (at->body.length > *length) fail("a body is too long");
        memcpy(bytes, at->body.bytes, at->body.length);
        *length = at->body.length;
    }
    return NETWORK;
}

/* One request, then nothing but time. */
static uint32_t script(uint64_t until, uint64_t *argument, uint8_t *bytes, size_t *length) {
    if (from_server.length > 0) return READABLE;
    for (uint64_t i = 0; i < COURSES; i++)
        if (exchanges[i].open) return network(i, argument, bytes, length);
    switch (step++) {
    case 0:
        return request(HELLO, bytes, length);
    case 1:
        heard.length = 0;
        return request(CALL, bytes, length);
    case 2:
        expect_answer();
        if (until != now + PERIOD) fail("the deadline is not a full period after the answer");
        now = until - 1;
        return TICK;
    case 3:
        if (input_closed) fail("the server was let go before its time");
        now++;
        return TICK;
    case 4:
        if (!input_closed) fail("the server was kept beyond its time");
        if (http && closed_by != legacy) fail("a session, and only that, is ended by a request");
        running = false;
        *argument = 0;
        return http ? TICK : EXITED;
    case 5:
        return http ? TICK : TREE_GONE;
    default:
        act++;
        if (ended_idle != act) fail("the server did not fall asleep");
        if (act == 2 && !drowse_speaks_http) act = 4;
        legacy = act & 1;
        http = act & 2;
        storm = act == 4;
        step = 0;
        *argument = http ? OVER_HTTP : 0;
        return FRESH;
    }
}

/* Anything from the network, about any exchange. */
static uint32_t weather(uint64_t *argument, uint8_t *bytes, size_t *length) {
    static const uint64_t statuses[] = {200, 200, 200, 200, 202, 301, 307, 400, 401, 403, 404, 404, 405, 429, 500, 503};
    struct text text = {0};
    uint64_t number = random(COURSES);
    if (random(4)) {
        /* What a network does: the response to an exchange that is open, in its order, then perhaps too much. */
        for (uint64_t n = 0; n < COURSES && !exchanges[number].open; n++) number = (number + 1) % COURSES;
        if (exchanges[number].phase <= END) return network(number, argument, bytes, length);
    }
    *argument = number | random(4) << 8 | PICK(statuses) << 16 | random(4) << 32 | random(4) << 35;
    if (random(16) == 0) *argument |= (uint64_t)1 << 34;
    if (random(4) == 0) *argument |= random(40) << 40;
    switch (random(8)) {
    case 0: say(&text, "event: endpoint\ndata: /post\n\n", 0); break;
    case 1: say(&text, "id: 1\nretry: 20\n\n", 0); break;
    case 2: case 3: say(&text, PICK(ANSWERS), last_wire); break;
    default:
        say(&text, "id: #\ndata: ", events);
        say(&text, PICK(ANSWERS), last_wire);
        say(&text, "\n", 0);
    }
    if (random(8) == 0) mangle(&text);
    if (text.length > *length) text.length = *length;
    memcpy(bytes, text.bytes, text.length);
    *length = text.length;
    return NETWORK;
}

static uint32_t confusion(uint64_t until, uint64_t *argument, uint8_t *bytes, size_t *length) {
    struct text text = {0};
    uint32_t kind;
    *argument = random(128);
    if (++events > STORM) return FINISH;
    if (http && random(3)) return weather(argument, bytes, length);
    switch (random(24)) {
    case 0: case 1: case 2: case 3: case 4:
        if (!greeted) {
            greeted = true;
            return request(HELLO, bytes, length);
        }
        return request(PICK(REQUESTS), bytes, length);
    case 5: case 6: case 7: case 8: case 9:
        return READABLE;
    case 10: case 11: case 12:
        now = until != UINT64_MAX && until > now && random(4) ? until : now + random(2 * PERIOD);
        return TICK;
    case 13:
        for (uint64_t n = random(40); n > 0; n--) say(&from_server, n > 30 ? "[\"a line beyond the limit\"," : "", 0);
        say(&from_server, PICK(ANSWERS), last_wire);
        return READABLE;
    case 14: case 15: case 16:
        switch (random(3)) {
        case 0: say(&text, PICK(ANSWERS), events); break;
        case 1: say(&text, PICK(REQUESTS), events); break;
        default: say(&text, PICK(STRINGS), events); break;
        }
        if (random(2)) mangle(&text);
        if (text.length > *length) text.length = *length;
        memcpy(bytes, text.bytes, text.length);
        *length = text.length;
        return BYTES;
    case 17: case 18:
        return running ? TICK : TREE_GONE;
    case 19:
        *argument = random(1u << 20);
        return random(8) ? CANCEL : FRESH;
    default:
        kind = CANCEL + (uint32_t)random(WRITABLE - CANCEL + 1);
        return (kind == CLOSE || kind == LEAVE) && random(8) ? FRESH : kind;
    }
}

uint32_t board_event(uint64_t until, uint64_t *argument, uint8_t *bytes, size_t *length) {
    uint32_t kind;
    *argument = 0;
    acts = 0;
    kind = storm ? confusion(until, argument, bytes, length) : script(until, argument, bytes, length);
    if (kind == FRESH) {
        from_server.length = to_server.length = to_caller.length = 0;
        running = input_closed = greeted = false;
        for (size_t i = 0; i < COURSES; i++) exchanges[i].open = false;
        closed_by = 0;
        http = *argument & OVER_HTTP;
    }
    return kind;
}

/* In pieces, so that lines and escapes are cut anywhere. */
size_t board_read(uint8_t *bytes, size_t capacity) {
    size_t taken = from_server.length;
    if (taken > 7) taken = 7;
    if (taken > capacity) taken = capacity;
    memcpy(bytes, from_server.bytes, taken);
    from_server.length -= taken;
    for (size_t i = 0; i < from_server.length; i++) from_server.bytes[i] = from_server.bytes[i + taken];
    return taken;
}

static uint64_t *slot_of(uint64_t wire) {
    if ((wire & 0xffff) >= 32) fail("a key whose slot does not exist");
    return &live[wire & 0xffff];
}

bool board_do(uint32_t what, uint64_t argument, const uint8_t *bytes, size_t length) {
    if (++acts > FLOOD) fail("it does not settle");
    switch (what) {
    case PERSIST:
        return !storm || random(16) > 0;
    case SPAWN:
        running = !storm || random(16) > 0;
        input_closed = false;
        return running;
    case CLOSE_INPUT:
        input_closed = true;
        if (storm && random(2)) running = false;
        return true;
    case KILL:
        running = false;
        return true;
    case RETIRE:
        if (argument == STATE_IDLE) ended_idle++;
        return true;
    case TO_SERVER:
        if (storm && random(32) == 0) return false;
        if (argument == 0) serve();
        else append(&to_server, (const char *)bytes, length);
        return true;
    case EXCHANGE:
        if (exchanges[argument].open) fail("an exchange began that is not over");
        current = argument;
        exchanges[current].open = true;
        exchanges[current].phase = 0;
        /* What is posted says more; streams are not offered, and a session may be ended. */
        exchanges[current].status = input_closed ? 200 : 405;
        exchanges[current].session = false;
        exchanges[current].body.length = 0;
        closed_by += input_closed;
        return true;
    case OVER:
        if (!exchanges[argument].open) fail("an exchange ended that had not begun");
        exchanges[argument].open = false;
        over++;
        return true;
    case TO_CALLER:
        if (argument == 0) {
            append(&to_caller, "\n", 1);
            if (!storm) append(&heard, to_caller.bytes, to_caller.length);
            to_caller.length = 0;
            answered++;
        } else {
            append(&to_caller, (const char *)bytes, length);
        }
        return true;
    case ACCEPTED: {
        uint64_t *slot = slot_of(argument);
        if (*slot) fail("a slot was given out twice");
        *slot = argument + 1;
        accepted++;
        return true;
    }
    case RELEASED: {
        uint64_t *slot = slot_of(argument);
        if (*slot != argument + 1) fail("a key came back that was not out");
        *slot = 0;
        return true;
    }
    case STRAY:
        fail("a key was lost");
        return false;
    case DIVERGED:
        fail("a replayed trace says something else than the machine");
        return false;
    default:
        return true;
    }
}

uint64_t board_now(void) { return now; }

void board_checksum(uint64_t value) { sink += value; }

void board_print(const char *name, size_t length, uint64_t value) {
    struct text line = {0};
    append(&line, "  ", 2);
    append(&line, name, length);
    say(&line, ": # bytes\n", value);
    print(line.bytes, line.length);
}

void board_main(void) {
    struct text line = {0};
    print("sizes in memory:\n", 17);
    drowse_run();
    for (size_t i = 0; i < 32; i++)
        if (live[i]) fail("a key did not come back");
    if (!storm || events <= STORM) fail("the program ended too early");
    if (accepted < STORM / 100 || answered < STORM / 100) fail("the storm was no storm");
    say(&line, "replayed one call and one sleep in each era, over ", 0);
    say(&line, drowse_speaks_http ? "a stream and over HTTP" : "a stream", 0);
    say(&line, ", then # events: ", STORM);
    say(&line, "# requests accepted, ", accepted);
    say(&line, "# exchanges, ", over);
    say(&line, "# messages to callers\n", answered);
    print(line.bytes, line.length);
    leave(0);
}
