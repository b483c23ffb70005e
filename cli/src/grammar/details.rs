//! What the help of a verb says beyond its flags.

pub(super) const CONNECT_DETAILS: &str = "\
The server is a URL, an entry of an MCP configuration file (`mcp.json:files`), or a command after `--`. A URL without \
a scheme is https://, or http:// on this machine. Without @name a name is derived from the host, the entry or the \
command. On an existing name with the same target its settings stay, except those given now (-H replaces the headers \
of the same name, --no-insecure and --no-auto-restart take back). A whole file connects all its entries, each as a \
session of its name; flags given here then count for all of them.

Asleep and awake:
  --idle-timeout lets the server go after that long without use. The session stays, and its next command wakes a \
  fresh server; what the old one kept in memory is gone. 0, or no such flag, means never.
  An operation counts as use from its start to its end. While one is in flight nothing sleeps; when the last one \
  ends, a full period starts. `ping` counts. What the server sends by itself does not, nor do `drowse` (the list), \
  `logs` and `close`.
  --lazy registers the session and starts nothing; its first command does.
  --auto-restart starts a server that crashed, or whose session expired, again in the background; never one that is \
  asleep. --on-expiry fail makes commands fail when the server has ended the session, until `restart`.

Questions of the server:
  --root is a directory (or file) that it may be told of; `--root ''` takes them back.
  --sampling-command gets the params of sampling/createMessage as JSON on stdin and writes its result, JSON with role, \
  content and model, to stdout. It runs in the session's working directory, with the time-out of the request.

The working directory and a few variables (PATH, HOME, LANG, proxy and CA settings, XDG) are pinned now, so that the \
session wakes the same from anywhere. Name others with --env.";

pub(super) const CALL_DETAILS: &str = "\
Arguments:
  key:=json     a number, boolean, null, array, object or string; what is not JSON is a string.
                For a parameter declared as a string, id:=123 sends \"123\".
  key=string    always a string
  key=@file     the file's text, as a string (a string that starts with @: key:=@text)
  {…}           the whole object
  -             the whole object, from stdin (only then stdin is read)

For key:=json values that could be meant as strings too, the tool's schema is asked for; then all arguments are checked \
by it, and nothing is sent that does not fit. --check does so always, --no-check never. What a schema refers to is not \
fetched, and one that cannot be checked by is no obstacle.

--schema names a file with what the tool was once (`tools-get <tool> --json`). The call is refused unless the tool is \
still: with `compatible`, such that what is passed could be passed then: nothing else is required that was not, \
and each argument is there and takes no less; with `strict`, the same name, description, input and output schema; \
with `ignore`, anything.

Questions of the server:
  On a terminal you are asked. Otherwise, and with --json, the server is told that nobody can be, unless --elicit says
  what to answer: accept-defaults fills forms in with their defaults, decline refuses, and a JSON object is the content
  of every form (what a form does not ask for is left out), or holds an answer for a question under its key:
  {\"key\": {…content…}} or {\"key\": {\"action\": \"accept|decline|cancel\"}}. Addresses are never opened without a yes.

Tasks:
  --task asks the server to run the call as a task, shows how that stands, and prints the result; --timeout limits the
  wait, not the task, and Ctrl-C cancels the task. --detach prints the task's id and returns (--json: the task); fetch
  the result with tasks-result. A session with a pending task does not fall asleep, until its end was seen or the time
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

pub(super) const LEVEL_DETAILS: &str = "\
The session remembers it: each server that is started for it is told again. `off` takes it back; a server of 2025-11-25 or \
earlier that runs is told `emergency`, the least that can be said.

Messages go to `drowse @name logs`, and to stderr of a command with --verbose, while that is under way (without a level: \
from info on).";

pub(super) const STATS_DETAILS: &str = "\
Starts nothing and counts as no activity.

A call is what counts as activity: what somebody wanted from the server. Its latency is what its caller waited for the
server, with the wake-up if there was one; the figures are never less than the truth, and less than a quarter more.
Memory is that of the server's processes just before they were let go; what a sleep saved is that memory times the time.
A bridge that is killed takes the counts of its last awake period with it, and that time shows as unknown.";

pub(super) const TIMELINE_DETAILS: &str = "\
Starts nothing and counts as no activity. Times are UTC. A cell of the bar shows the most notable state of its time, so
that nothing is too short to be seen; the SVG and --json have the exact times.";
