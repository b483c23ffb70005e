//! What the help of a verb says beyond its flags.

pub(super) const CONNECT_DETAILS: &str = "\
The server is a URL, an entry of an MCP configuration file (`mcp.json:files`), or a command after `--`. A URL without \
a scheme is https://, or http:// on this machine. Without @name a name is derived from the host, the entry or the \
command. On an existing name with the same target its settings stay, except those given now (-H replaces the headers \
of the same name, --no-insecure and --no-auto-restart take back). A whole file connects all its entries, each as a \
session of its name; flags given here then count for all of them.

Asleep and awake:
  --idle-timeout lets the server go after that long without use. The session stays, and its next command wakes a \
  fresh server; what the old one kept in memory is gone. 0 means never; so does no such flag, unless your default \
  (`drowse config`) or the entry says otherwise.
  An operation counts as use from its start to its end. While one is in flight nothing sleeps; when the last one \
  ends, a full period starts. A subscription to a resource and a task that is not over defer it in the same way; \
  `drowse` shows the time left, or what keeps the session awake. `ping` counts. What the server sends by itself does not, \
  nor do `drowse` (the list), `logs` and `close`. All of it: `drowse help activity`.
  --lazy registers the session and starts no server; its first command does, and with --proxy the first client.
  --auto-restart starts a server that crashed, or whose session expired, again in the background; never one that is \
  asleep. With --idle-timeout a server so started sleeps again after a full period without use. --on-expiry fail makes \
  commands fail when the server has ended the session, until `restart`.

Sharing it over HTTP:
  --proxy 8080 serves the session at http://127.0.0.1:8080/mcp to as many clients as come, a sandboxed agent for instance; its \
  headers, environment and command line stay with you. Port 0 is a free one, and the same again later; `drowse` shows it. \
  --proxy-bearer-token lets in only clients that send that token, and other hosts than this machine's own need one. Give it as \
  @FILE or '${NAME}' (a variable), so that nobody sees it in a list of processes. --proxy off takes the address back and keeps the token, and `drowse set @name proxy …` does all of that without a restart.
  --http-host, --http-origin and --http-limit NAME=VALUE say who else comes in, and how much there may be: `drowse dev --help` has \
  the limits. They stay with the session; NAME=default takes a limit back, and '' all names or origins.
  With --idle-timeout the listener stays while the server sleeps, and a client's next call wakes it; lists are answered from what \
  was saved. A client that keeps a session open (the protocol up to 2025-11-25) keeps the server awake until it ends that, or \
  does not use it for 30 min (or --http-limit idle=…). `close` gives the port up; after a crash or a kill of drowse the next command takes it again. If \
  somebody else has the port, connect and restart fail, and other commands work without it.

Questions of the server:
  --root is a directory (or file) that it may be told of; `--root ''` takes them back.
  --sampling-command gets the params of sampling/createMessage as JSON on stdin and writes its result, JSON with role, \
  content and model, to stdout. It runs in the session's working directory, with the time-out of the request.

The working directory and a few variables (PATH, HOME, LANG, proxy and CA settings, XDG) are pinned now, so that the \
session wakes the same from anywhere. Name others with --env.

With --json, here as everywhere: the result alone on stdout. On stderr a JSON document a line: {\"notice\", \"kind\"} for \
what else there is to know (kind session-renewed: the server had ended the session, or itself, and what it kept is gone), and, \
last, {\"error\", \"code\", \"kind\", \"ran\"?} if the command failed.";

pub(super) const DEV_DETAILS: &str = "\
Standard input and output are the client's connection, of either era of the protocol; put this line into the client's \
configuration in place of the server's own. The server starts with the first request that needs it, runs in this \
directory with this environment, and may speak either era, too. Everything ends with the connection, and with Ctrl-C.

A server of both eras speaks that of the client whose request starts it first, unless --mcp-version says otherwise: legacy, \
modern, or a revision, which is then the only one. A legacy client that comes before any start is shown all that can be carried, and \
drowse's name: the server's own instructions and serverInfo are not in the answer to its `initialize`, for which nothing is started. \
--root is a directory (or file) that a legacy server may be told of, whatever the client's own roots are.

Beside the server's tools the client has:
  dev_restart {rebuild?, env?}   a fresh server; with rebuild the build runs first, and the old server serves meanwhile. \
  A build that failed, or that changed nothing the command is made of, restarts nothing. env replaces what --env set.
  dev_status {}                  how server and build stand, and what helps; starts nothing.
  dev_logs {lines?}              the last lines of the server's stderr and of builds, which are on this stderr, too. \
  Values of --env and env are left out of them.

  A restart waits --drain for what is under way; what comes meanwhile runs on the new server. A server that crashed is \
  started again by the next request, after five crashes within 30 s not before half a minute has passed; dev_restart \
  does at once. A request waits --discovery-wait for a server that is being started; a list is then the last one that was \
  seen. After each restart the client is told that its lists may have changed, and its subscriptions go on.

  --watch globs begin at this directory (\"src/**/*.ts\", or a directory for all in it). A file that was written with the \
  same content has not changed; if some change with every build, they are left alone until others do, and that is said. A server \
  that crashed is started again by a change; one that never ran waits for its first request.

Over HTTP:
  --http serves clients at http://127.0.0.1:PORT/mcp instead, which is printed; beyond this machine a token is needed. \
  --backend-url is where the command itself serves, if it is an HTTP server: its port has to be free before.

  Clients of both eras come to the same address. Limits, as they are without --http-limit NAME=VALUE:
  connections=1024   at once
  body=67108864      bytes of a request
  bodies=268435456   bytes of all requests that are read or not answered
  sessions=256       of legacy clients, at once
  streams=64         and requests of a session, at once
  unread=8388608     bytes that wait for a client that does not read
  answers=268435456  bytes of all long messages that clients have yet to take
  events=1048576     bytes of a session's streams that are kept for a client that lost one
  idle=30m           until a session ends that nobody uses
  head=30s           for the head of a request, and for the next request on a connection
  body-time=60s      for the body of a request
  stalled=30s        until a connection ends whose client takes nothing
  hold=off           until a session's stream is closed, and its client, if of 2025-11-25, polls for the rest

For example:
  drowse dev -- node server.js
  drowse dev --http 3001 --http-bearer-token @token.txt -- node server.js
  drowse dev --build \"npm run build\" --watch \"src/**\" -- node dist/server.js
  drowse dev --backend-url http://127.0.0.1:3000/mcp -- python server.py";

pub(super) const CALL_DETAILS: &str = "\
Arguments:
  key:=json     a number, boolean, null, array, object or string; what is not JSON is a string.
                For a parameter declared as a string, id:=123 sends \"123\".
  key=string    always a string
  key=@file     the file's text, as a string (a string that starts with @: key:=@text)
  {…}           the whole object
  -             the whole object, from stdin (only then stdin is read)

All arguments are checked by the tool's schema: by what was saved of it (from moments after the first start on), and by what \
the server says now where they do not fit that, or where a key:=json value could be meant as a string too. What does not fit is \
not sent, and what to type instead of a string is said. --check asks always, --no-check checks nothing. What a schema refers to \
is not fetched, and one that cannot be checked by is no obstacle.

--schema names a file with what the tool was once (`tools-get <tool> --json`). The call is refused unless the tool is \
still: with `compatible`, such that what is passed could be passed then: nothing else is required that was not, \
and each argument is there and takes no less; with `strict`, the same name, description, input and output schema; \
with `ignore`, anything.

Questions of the server:
  On a terminal you are asked. Otherwise, and with --json, the server is told that nobody can be, unless --elicit says \
  what to answer: accept-defaults fills forms in with their defaults, decline refuses, and a JSON object is the content \
  of every form (what a form does not ask for is left out), or holds an answer for a question under its key: \
  {\"key\": {…content…}} or {\"key\": {\"action\": \"accept|decline|cancel\"}}. Addresses are never opened without a yes.

Tasks:
  --task asks the server to run the call as a task, shows how that stands, and prints the result; --timeout limits the \
  wait, not the task, and Ctrl-C cancels the task. --detach prints the task's id and returns (--json: the task); fetch \
  the result with tasks-result. A session with a pending task does not fall asleep, until its end was seen or the time \
  for which its server keeps it is over (a day, if the server does not say).

`drowse @name tools-call <tool> --help` shows what that tool takes.
Exit status: 0, or 2 if the tool reports an error.";

pub(super) const PROMPT_DETAILS: &str = "\
Arguments are those of tools-call (`drowse help tools-call`); the values of a prompt are strings, so n:=5 sends \"5\".
One message is printed as it is, several each below its role.";

pub(super) const COMPLETE_DETAILS: &str = "\
For example, for a prompt `review` with the arguments `language` and `style`, and a template `repo://{owner}/{name}`:
  drowse @name complete prompt review language py
  drowse @name complete prompt review style \"\" --with language=python
  drowse @name complete resource repo://{owner}/{name} name dr --with owner=me
Prints a value a line.";

pub(super) const TASK_DETAILS: &str = "\
Waits until the task is done; --timeout limits that. What the task asks meanwhile is asked on the terminal, or answered \
by --elicit. Ctrl-C ends the wait, not the task. Exit status: 0, or 2 if the tool reports an error.";

pub(super) const SUBSCRIBE_DETAILS: &str = "\
Each update is printed as the time (UTC), the URI and the content that the resource has then; with --json as one \
document a line: the result of resources/read, and in `_drowse` the `uri` and `at`, in milliseconds since 1970. Updates \
that come while one is being read are one.

While it runs the server stays awake, whatever the idle timeout. It outlives the server and the session's bridge: it \
subscribes again, says so on stderr, and prints the resource once more, for it may have changed meanwhile \
(`_drowse.resubscribed`).

Ctrl-C unsubscribes. Exit status: 0 after Ctrl-C, or when the session was closed; 2 if the server announces no updates \
of that resource.

With --sync it returns as soon as FILE is equal to the resource, and the session keeps it so in the background, until \
`resources-unsubscribe <uri>` or `close`: a text as it is, binary content decoded, several contents one after the other. \
Each time the file is replaced whole. This keeps the server awake, and outlives restarts; should the bridge be killed or \
the server crash, it goes on when the session wakes the next time. What cannot be written (no such directory any more, \
no room on the disk) is tried again, after 5 s at first and then each minute, and after every update; \
`drowse @name` shows how it stands.";

pub(super) const GREP_DETAILS: &str = "\
Without --tools, --resources, --prompts or --instructions: tools and instructions. Looked at are names, titles, \
descriptions, arguments and what is said of them, URIs, and instructions.

All sessions are searched as their servers were when they ran last, and none is started; what is not of a running server \
has its session's state and its age behind it: (idle, 3 h old). With a session, its server is woken and asked.

An expression (-E) is of the kind without look-around and back references; ^ and $ are the ends of a line.

Exit status, as of grep: 0 if something was found, 1 if nothing was, 2 if something went wrong.";

pub(super) const LEVEL_DETAILS: &str = "\
The session remembers it: each server that is started for it is told again. `off` takes it back; a server of 2025-11-25 or \
earlier that runs is told `emergency`, the least that can be said.

Messages go to `drowse @name logs`, and to stderr of a command with --verbose, while that is under way (without a level: \
from info on).";

pub(super) const IMPORT_DETAILS: &str = "\
Without a file it looks where hosts keep their servers (Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Gemini \
CLI, .mcp.json here), and at mcpc's sessions. Nothing is started, and the files are not changed. An entry of a file \
becomes a session on that entry, so that an edit takes effect at its next restart; a session of mcpc keeps its name, its \
environment and those headers whose values are in a file.

Without a terminal to ask on, nothing is done unless --yes is given.";

pub(super) const SHELL_DETAILS: &str = "\
Each line is a command, without `drowse`: tools-list, @other ping, connect … With a session, lines are about that one \
unless they name another. Beside commands there are: use @name (lines are about that session from now on; use: about \
none), exit, and help. Ctrl-C ends the command that runs, Ctrl-D the shell.

The last 1000 lines are kept in the file `history` beside the sessions, without those that hold a header (-H), a variable \
(--env), or begin with a space. If standard input is not a terminal, its lines are carried out up to the first that \
fails, whose exit status is the shell's.";

pub(super) const COMPLETIONS_DETAILS: &str = "\
In a start-up file:
  bash         ~/.bashrc:                   source <(drowse completions bash)
  zsh          ~/.zshrc, after compinit:    source <(drowse completions zsh)
  fish         ~/.config/fish/config.fish:  drowse completions fish | source
  PowerShell   $PROFILE:                    drowse completions powershell | Out-String | Invoke-Expression

Commands, flags and their values, sessions, tools, prompts, resources and the arguments of a tool are completed: from what \
is on the disk, so that no Tab starts a server or keeps one awake.";

pub(super) const SET_DETAILS: &str = "\
Settings:
  idle-timeout     let the server go after that long without use (600, 10m; 0: never)
  timeout          limit of a request, anew with each progress (300 s)
  max-timeout      limit of a request whatever its progress (1 h)
  connect-timeout  limit of a start (60 s)
  stop-grace       how long a server may take to exit: after EOF, and again after TERM (2 s)
  keepalive        ask a silent server that often whether it is there (0: never)
  auto-restart     start a server that crashed or expired again in the background (on, off)
  on-expiry        when the server ended the session: begin a fresh one, or fail (fresh, fail)
  log-level        how much of its log the server is to send (warning, …; off)
  mcp-version      pin an era or a revision (legacy, modern, 2025-06-18)
  roots            a directory that the server may be told of, or a JSON list; repeatable
  sampling-command the shell command that asks a language model for the server
  insecure, cacert, proxy   as the flags of connect, for servers behind URLs
  proxy [host:]port, proxy off   share the session over HTTP there, or no more; at once, also while it sleeps; its bearer token is kept
  proxy-bearer-token   let in only those who know the token: as it stands, @FILE or ${NAME}; off: everybody on this machine
  http-host, http-origin, http-limit   as the flags of connect, for a session that is shared; at once, and clients there begin anew

`default` as the value takes a setting back: then the session's entry, your own default (drowse config) or the built-in \
one holds. All of it survives restarts. No server is started by it, and it is no use of one. A port that is taken changes nothing: \
the session is shared as before.

A server that runs goes by the first nine at once. The idle period counts from the end of the last operation: a shorter \
one may be over already. A limit holds for requests from then on. The others take effect at the next start \
(drowse restart @name).

For example:
  drowse @name set idle-timeout 10m keepalive 0
  drowse @name set idle-timeout default";

pub(super) const CONFIG_DETAILS: &str = "\
Your defaults hold for every session that does not say otherwise: before them come what `connect` or `set` gave and \
what the session's entry in a configuration file says, an explicit 0 included. New sessions have a change at once, \
others at their next start. The settings are those of `drowse set --help`, without mcp-version, log-level and insecure, \
which are about one server.

The file may hold comments and trailing commas, and what drowse does not know stays as it is: \
`{\"schema\": 1, \"defaults\": {\"idleTimeoutSecs\": 600}}`. It is config.json in $DROWSE_HOME if that is set, else \
drowse/config.json in $XDG_CONFIG_HOME or ~/.config.

For example:
  drowse config set idle-timeout 10m
  drowse config unset idle-timeout";

/// Of `ps`.
pub(super) const PS_DETAILS: &str = "\
Starts nothing, asks nobody and counts as no activity. Memory is a process's share of what it uses (PSS); with a ~ before \
it, all of it (RSS).\n\
An orphan is a process of a server whose bridge is gone: `drowse doctor` ends it, and so does the next use of its session.";

/// Of `top`.
pub(super) const TOP_DETAILS: &str = "\
Starts nothing and keeps nothing awake.\n\
Keys: q quits, s sorts by the next column, arrows, j and k scroll. Without a terminal, with --once and with --json \
there is one table.\n\
P50 and P95: half of the calls, and 95 of 100, were answered within that.\n\
SLEEPS IN: the time until sleep; `in use` while a call runs, `deferred` while subscriptions or tasks keep it awake.";

/// Of `doctor`.
pub(super) const DOCTOR_DETAILS: &str = "\
Looks at directories, records, locks, sockets, bridges, and at processes that dead bridges left behind. Starts nothing \
and counts as no activity.\n\
Ends processes only if they carry the mark of a session of this home and no bridge looks after them. A damaged file is \
renamed to <file>.damaged-<n> beside itself. Nothing of a running session is touched.\n\
Exit status: 0 if nothing is left to do, else 2.";

pub(super) const STATS_DETAILS: &str = "\
Starts nothing and counts as no activity.

A call is what counts as activity: what somebody wanted from the server. Its latency is the time from its \
arrival at the session's bridge to its answer. The start of a server that slept comes before that: the timeline has it, as \
connecting. P50 and P95: half of the calls, and 95 of 100, were answered within that. The figures are never less than the truth, and less than a quarter more.

Memory is that of the server's processes just before they were let go; what a sleep saved is that memory times the time. \
A bridge that is killed takes the counts of its last awake period with it, and that time shows as unknown.";

pub(super) const TIMELINE_DETAILS: &str = "\
Starts nothing and counts as no activity. Times are UTC. A cell of the bar shows the most notable state of its time, so \
that nothing is too short to be seen; the SVG and --json have the exact times.";
