//! The messages of subscriptions: what is read of them, and what drowse writes.

use super::{Lists, Offers};
use crate::capabilities::{self, ClientCapabilities};
use crate::envelope;
use crate::era::Revision;
use crate::json;
use crate::message::{self, Identity, Writer};
use crate::span::Span;

/// The key of a notification's subscription in `_meta`.
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The first message of a subscription.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The key of the tasks in a filter.
const TASKS: &str = "taskIds";
/// A resource was updated.
pub const UPDATED: &str = "notifications/resources/updated";

/// A list of the server that may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum List {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
}

impl List {
    /// Every list.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The notification of its change.
    #[must_use]
    pub const fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }

    /// Its name in the filter of a subscription.
    #[must_use]
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// The list whose change a method (a JSON string) announces.
    #[must_use]
    pub fn of_notification(method: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|list| json::str_eq(method, list.notification()))
    }
}

/// The filter of a `subscriptions/listen`, or of its acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Filter {
    /// The lists that are named.
    pub lists: Lists,
    /// The URIs that are named: an array of strings, or nothing.
    pub uris: Option<Span>,
    /// The tasks that are named, in the same way.
    pub tasks: Option<Span>,
}

impl Filter {
    /// Reads `params.notifications`; `None` if that is no filter.
    #[must_use]
    pub fn read(frame: &[u8], params: Option<Span>) -> Option<Self> {
        let filter = json::member(frame, params?, "notifications")?;
        if !json::is_object(filter.of(frame)) {
            return None;
        }
        let mut lists = Lists::NONE;
        for list in List::ALL {
            match json::member(frame, filter, list.filter()).map(|value| value.of(frame)) {
                Some(b"true") => lists = lists.with(list),
                Some(b"false" | b"null") | None => {}
                Some(_) => return None,
            }
        }
        let mut named = [None; 2];
        for (names, key) in named.iter_mut().zip(["resourceSubscriptions", TASKS]) {
            *names = json::member(frame, filter, key).filter(|names| names.of(frame) != b"null");
            if let Some(names) = *names
                && !(json::is_array(names.of(frame))
                    && json::elements(frame, names).all(|name| json::is_string(name.of(frame))))
            {
                return None;
            }
        }
        let [uris, tasks] = named;
        Some(Self { lists, uris, tasks })
    }

    /// The URIs, as JSON strings.
    pub fn uris<'f>(&self, frame: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
        strings(frame, self.uris)
    }

    /// The ids of the tasks, as JSON strings.
    pub fn tasks<'f>(&self, frame: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
        strings(frame, self.tasks)
    }
}

impl Offers {
    /// What the `capabilities` of a server's description of itself say.
    #[must_use]
    pub fn read(frame: &[u8], described: Span) -> Self {
        let says = |name, what| {
            json::member(frame, described, "capabilities")
                .and_then(|capabilities| json::member(frame, capabilities, name))
                .and_then(|capability| json::member(frame, capability, what))
                .is_some_and(|value| value.of(frame) == b"true")
        };
        let lists = List::ALL.into_iter().filter(|list| says(list.capability(), "listChanged"));
        let tasks = json::member(frame, described, "capabilities")
            .is_some_and(|capabilities| capabilities::has_tasks(frame, capabilities));
        Self { lists: lists.fold(Lists::NONE, Lists::with), subscribe: says("resources", "subscribe"), tasks }
    }
}

fn strings(frame: &[u8], array: Option<Span>) -> impl Iterator<Item = &[u8]> {
    array.into_iter().flat_map(move |array| json::elements(frame, array)).map(|one| one.of(frame))
}

/// The subscription that a notification of the server belongs to, if it is one of ours.
#[must_use]
pub fn subscription(frame: &[u8], params: Option<Span>) -> Option<u64> {
    let meta = json::member(frame, params?, "_meta")?;
    json::as_u64(json::member(frame, meta, META_SUBSCRIPTION)?.of(frame))
}

/// The request that a `notifications/cancelled` names, if that has an id of ours.
#[must_use]
pub fn cancelled(frame: &[u8], params: Option<Span>) -> Option<u64> {
    json::as_u64(json::member(frame, params?, "requestId")?.of(frame))
}

/// Writes `resources/subscribe` or `resources/unsubscribe`.
pub fn subscribe(w: &mut Writer<'_>, wire: u64, uri: &str, on: bool) {
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.number(wire);
    w.raw(br#","method":"resources/"#);
    w.raw(if on { b"subscribe" } else { b"unsubscribe" });
    w.raw(br#"","params":{"uri":"#);
    w.string(uri);
    w.raw(b"}}");
}

/// Writes `subscriptions/listen`.
pub fn listen<'u>(
    w: &mut Writer<'_>,
    wire: u64,
    revision: Revision,
    identity: Identity,
    lists: Lists,
    uris: impl Iterator<Item = &'u str>,
    tasks: impl Iterator<Item = &'u str>,
) {
    let mut tasks = tasks.peekable();
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.number(wire);
    w.raw(br#","method":"subscriptions/listen","params":{"_meta":"#);
    // Nothing is asked on that stream, and only who has the extension may name tasks.
    let capabilities = ClientCapabilities { tasks: tasks.peek().is_some(), ..ClientCapabilities::default() };
    message::request_meta(w, revision, identity, capabilities);
    w.raw(br#","notifications":"#);
    filter(w, lists, uris, tasks);
    w.raw(b"}}");
}

/// Writes the first message of a client's subscription. `id`: its request's, raw.
pub fn acknowledged<'u>(
    w: &mut Writer<'_>,
    id: &[u8],
    lists: Lists,
    uris: impl Iterator<Item = &'u str>,
    tasks: impl Iterator<Item = &'u str>,
) {
    notification(w, ACKNOWLEDGED, id);
    w.raw(br#","notifications":"#);
    filter(w, lists, uris, tasks);
    w.raw(b"}}");
}

/// Writes that a resource was updated.
pub fn updated(w: &mut Writer<'_>, id: &[u8], uri: &str) {
    notification(w, UPDATED, id);
    w.raw(br#","uri":"#);
    w.string(uri);
    w.raw(b"}}");
}

/// Writes the status of a task, as the server said it (`params`, an object), to a client that listens.
pub fn task(w: &mut Writer<'_>, id: &[u8], frame: &[u8], params: Span) {
    w.raw(br#"{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"#);
    w.string(META_SUBSCRIPTION);
    w.raw(b":");
    w.raw(if envelope::is_id(id) { id } else { b"0" });
    let meta = json::member(frame, params, "_meta").filter(|meta| json::is_object(meta.of(frame)));
    let others = meta.into_iter().flat_map(|meta| json::members(frame, meta));
    members(w, frame, others, META_SUBSCRIPTION);
    w.raw(b"}");
    members(w, frame, json::members(frame, params), "_meta");
    w.raw(b"}}");
}

/// Members, each with a comma before it, but for that one.
fn members(w: &mut Writer<'_>, frame: &[u8], all: impl Iterator<Item = json::Member>, but: &str) {
    for member in all.filter(|member| !json::str_eq(member.key.of(frame), but)) {
        w.raw(b",");
        w.raw(Span::new(member.key.start(), member.value.end()).of(frame));
    }
}

/// Writes that a list changed.
pub fn list_changed(w: &mut Writer<'_>, id: &[u8], list: List) {
    notification(w, list.notification(), id);
    w.raw(b"}}");
}

/// Writes that a resource was updated, to a client that subscribed by `resources/subscribe`.
pub fn updated_to_all(w: &mut Writer<'_>, uri: &str) {
    w.raw(br#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"#);
    w.string(uri);
    w.raw(b"}}");
}

/// Writes that a list changed, to a client that hears of all of them.
pub fn list_changed_to_all(w: &mut Writer<'_>, list: List) {
    w.raw(br#"{"jsonrpc":"2.0","method":"#);
    w.string(list.notification());
    w.raw(b"}");
}

/// Writes the graceful end of a subscription: the answer to its request.
pub fn ended(w: &mut Writer<'_>, id: &[u8]) {
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.raw(id);
    w.raw(br#","result":{"resultType":"complete","_meta":"#);
    meta(w, id);
    w.raw(b"}}");
}

fn notification(w: &mut Writer<'_>, method: &str, id: &[u8]) {
    w.raw(br#"{"jsonrpc":"2.0","method":"#);
    w.string(method);
    w.raw(br#","params":{"_meta":"#);
    meta(w, id);
}

fn meta(w: &mut Writer<'_>, id: &[u8]) {
    w.raw(b"{");
    w.string(META_SUBSCRIPTION);
    w.raw(b":");
    // Whoever wrote an id that is none has no use for a line that is no message.
    w.raw(if envelope::is_id(id) { id } else { b"0" });
    w.raw(b"}");
}

fn filter<'u>(
    w: &mut Writer<'_>,
    lists: Lists,
    uris: impl Iterator<Item = &'u str>,
    tasks: impl Iterator<Item = &'u str>,
) {
    w.raw(b"{");
    let mut comma: &[u8] = b"";
    for list in List::ALL.into_iter().filter(|list| lists.has(*list)) {
        w.raw(comma);
        w.string(list.filter());
        w.raw(b":true");
        comma = b",";
    }
    comma = strings_of(w, comma, "resourceSubscriptions", uris);
    strings_of(w, comma, TASKS, tasks);
    w.raw(b"}");
}

/// Writes a member, if there is anything in it; what separates the next one from it.
fn strings_of<'u>(
    w: &mut Writer<'_>,
    comma: &'static [u8],
    key: &str,
    all: impl Iterator<Item = &'u str>,
) -> &'static [u8] {
    let mut any = false;
    for one in all {
        if any {
            w.raw(b",");
        } else {
            w.raw(comma);
            w.string(key);
            w.raw(b":[");
        }
        w.string(one);
        any = true;
    }
    if !any {
        return comma;
    }
    w.raw(b"]");
    b","
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::vec::Vec;

    use serde_json::{Value, json};

    use super::*;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Value {
        let mut buffer = [0; 1024];
        let mut w = Writer::new(&mut buffer);
        write(&mut w);
        let bytes = w.finish().unwrap();
        envelope::read(bytes).unwrap();
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn what_clients_are_told_has_their_own_id() {
        for (raw, id) in [(&b"\"listen:0\""[..], json!("listen:0")), (b"0", json!(0))] {
            let lists = Lists::NONE.with(List::Tools).with(List::Resources);
            let ack = written(|w| acknowledged(w, raw, lists, ["a\"b", "c"].into_iter(), ["t"].into_iter()));
            assert_eq!(
                ack,
                json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": {
                    "_meta": {META_SUBSCRIPTION: id},
                    "notifications": {"toolsListChanged": true, "resourcesListChanged": true,
                        "resourceSubscriptions": ["a\"b", "c"], "taskIds": ["t"]},
                }})
            );
            let update = written(|w| updated(w, raw, "file:///x"));
            assert_eq!(update["params"], json!({"_meta": {META_SUBSCRIPTION: id}, "uri": "file:///x"}));
            let changed = written(|w| list_changed(w, raw, List::Prompts));
            assert_eq!(changed["method"], "notifications/prompts/list_changed");
            assert_eq!(changed["params"], json!({"_meta": {META_SUBSCRIPTION: id}}));
            let end = written(|w| ended(w, raw));
            assert_eq!(end["id"], id);
            assert_eq!(end["result"]["_meta"][META_SUBSCRIPTION], id);
        }
        let nothing = written(|w| acknowledged(w, b"1", Lists::NONE, [].into_iter(), [].into_iter()));
        assert_eq!(nothing["params"]["notifications"], json!({}));
    }

    #[test]
    fn the_status_of_a_task_goes_on_as_it_stands_under_the_clients_id() {
        for (params, told) in [
            (r#"{"taskId":"t"}"#, r#""taskId":"t""#),
            (
                r#"{"taskId" : "\u0074","_meta":{"io.modelcontextprotocol/subscription\u0049d":7},"result":{"n":1.0}}"#,
                r#""taskId" : "\u0074","result":{"n":1.0}"#,
            ),
            (r#"{"_meta":1,"taskId":"t"}"#, r#""taskId":"t""#),
        ] {
            let frame =
                [r#"{"jsonrpc":"2.0","method":"notifications/tasks","params":"#, params, "}"].concat();
            let span = Span::new(frame.len() - 1 - params.len(), frame.len() - 1);
            let mut buffer = [0; 512];
            let mut w = Writer::new(&mut buffer);
            task(&mut w, b"\"l\"", frame.as_bytes(), span);
            let expected = std::format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{"_meta":{{"{META_SUBSCRIPTION}":"l"}},{told}}}}}"#
            );
            assert_eq!(w.finish().unwrap(), expected.as_bytes());
        }
    }

    #[test]
    fn what_the_server_is_asked() {
        assert_eq!(
            written(|w| subscribe(w, 7, "a\\b", false)),
            json!({"jsonrpc": "2.0", "id": 7, "method": "resources/unsubscribe", "params": {"uri": "a\\b"}})
        );
        let us = Identity { name: "drowse", version: "0" };
        let uris = ["u"].into_iter();
        let ask = written(|w| listen(w, 9, Revision::LATEST_MODERN, us, Lists::NONE, uris, [].into_iter()));
        assert_eq!(ask["params"]["notifications"], json!({"resourceSubscriptions": ["u"]}));
        assert_eq!(ask["params"]["_meta"][message::META_PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(ask["params"]["_meta"][message::META_CLIENT_CAPABILITIES], json!({}));
        let tasks = ["t\""].into_iter();
        let ask = written(|w| listen(w, 9, Revision::LATEST_MODERN, us, Lists::NONE, [].into_iter(), tasks));
        assert_eq!(ask["params"]["notifications"], json!({"taskIds": ["t\""]}));
        assert_eq!(
            ask["params"]["_meta"][message::META_CLIENT_CAPABILITIES],
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
        );
    }

    #[test]
    fn filters_and_what_is_none() {
        let read = |text: &str| {
            let frame = text.as_bytes();
            let filter = Filter::read(frame, Some(json::scan(frame).unwrap()))?;
            Some((filter.lists, filter.uris(frame).map(<[u8]>::to_vec).collect::<Vec<_>>()))
        };
        assert_eq!(read(r#"{"notifications":{}}"#), Some((Lists::NONE, Vec::new())));
        let (lists, uris) =
            read(r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a","b"],"x":1}}"#)
                .unwrap();
        assert_eq!(lists, Lists::NONE.with(List::Tools));
        assert_eq!(uris, [b"\"a\"".to_vec(), b"\"b\"".to_vec()]);
        for bad in [
            "{}",
            r#"{"notifications":[]}"#,
            r#"{"notifications":{"toolsListChanged":1}}"#,
            r#"{"notifications":{"resourceSubscriptions":"a"}}"#,
            r#"{"notifications":{"resourceSubscriptions":[1]}}"#,
            r#"{"notifications":{"taskIds":["a",1]}}"#,
            r#"{"notifications":{"taskIds":true}}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn capabilities_say_what_can_be_heard() {
        let read = |text: &str| Offers::read(text.as_bytes(), json::scan(text.as_bytes()).unwrap());
        let all = read(
            r#"{"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false}}}"#,
        );
        assert_eq!(all, Offers { lists: Lists::NONE.with(List::Tools), subscribe: true, tasks: false });
        let tasks = read(r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#);
        assert_eq!(tasks, Offers { lists: Lists::NONE, subscribe: false, tasks: true });
        for none in ["{}", r#"{"capabilities":{"resources":{}}}"#, r#"{"capabilities":1}"#] {
            assert_eq!(read(none), Offers { lists: Lists::NONE, subscribe: false, tasks: false }, "{none}");
        }
    }
}
