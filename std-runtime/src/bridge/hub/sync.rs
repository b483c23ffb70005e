//! Files that are kept equal to resources (`resources-subscribe --sync`), for as long as the bridge lives.
//!
//! Each is a client of the hub like any other, only that its connection does not leave the process: it subscribes,
//! which keeps the server awake, reads after every update, and writes. What is wanted is in the session's record, so
//! that the next bridge goes on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

use super::*;
use crate::base64;
use crate::wire::{Envelope, ErrorData, FileSync};

/// Room in the pipe to the hub.
const PIPE: usize = 64 << 10;
/// How long a failure is left alone before the next attempt; the pause grows while that helps nothing.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The request that subscribes.
const LISTEN: u64 = 0;

/// What is kept equal, and how it stands.
#[derive(Default)]
pub(super) struct Syncs(Vec<One>);

struct One {
    sync: FileSync,
    shared: Rc<RefCell<Standing>>,
    /// Told to do it now.
    again: Rc<Notify>,
    _task: Task,
}

#[derive(Default)]
struct Standing {
    /// When the file was written last, in milliseconds since 1970.
    written: Option<u64>,
    /// Why it is not equal.
    error: Option<String>,
    /// Who waits to hear whether it works: connections, and the ids of their requests.
    waiting: Vec<(u64, Vec<u8>)>,
}

/// Why a file is not equal to its resource.
struct Fault {
    kind: &'static str,
    message: String,
    /// Trying again as it is helps nothing.
    lasting: bool,
}

/// How a subscription ended.
enum End {
    /// The bridge goes.
    Gone,
    Faulty(Fault),
}

impl Syncs {
    /// The files that are kept equal to that resource.
    pub(super) fn files_of(&self, uri: &str) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(move |one| one.sync.uri == uri).map(|one| one.sync.file.as_path())
    }

    /// How each stands.
    pub(super) fn status(&self) -> Value {
        let each = self.0.iter().map(|one| {
            let standing = one.shared.borrow();
            json!({"uri": one.sync.uri, "file": one.sync.file, "written": standing.written, "error": standing.error})
        });
        each.collect()
    }
}

impl Hub {
    /// Begins what the record wants. To be called once.
    pub(super) fn begin_syncs(&self, inner: &mut Inner) {
        for sync in std::mem::take(&mut inner.config.syncs) {
            self.keep_equal(inner, sync, None);
        }
    }

    /// Somebody wants a file kept equal to a resource, and to hear whether that works.
    pub(super) fn sync(&self, inner: &mut Inner, connection: u64, id: &[u8], params: &[u8]) {
        match serde_json::from_slice::<FileSync>(params) {
            Ok(sync) => self.keep_equal(inner, sync, Some((connection, id.to_vec()))),
            Err(error) => {
                let explained = explain::refused(format!("the params: {error}"), "invalid-request");
                inner.reply_error(connection, Some(id), -32602, &explained);
            }
        }
    }

    /// Nobody wants files kept equal to that resource any more.
    pub(super) fn unsync(&self, inner: &mut Inner, connection: u64, id: &[u8], params: &[u8]) {
        let params = serde_json::from_slice::<Value>(params).unwrap_or_default();
        // Without a file: whatever the file.
        let is_meant = |sync: &FileSync| {
            params["uri"] == *sync.uri && (params["file"].is_null() || params["file"] == json!(sync.file))
        };
        let (ended, kept) = inner.syncs.0.drain(..).partition(|one| is_meant(&one.sync));
        inner.syncs.0 = kept;
        let ended: Vec<One> = ended;
        for (connection, id) in ended.iter().flat_map(|one| one.shared.take().waiting) {
            let explained = explain::refused("it was unsubscribed".to_owned(), "cancelled");
            inner.reply_error(connection, Some(&id), explain::CODE, &explained);
        }
        inner.reply(connection, id, &[b"{}"]);
    }

    fn keep_equal(&self, inner: &mut Inner, sync: FileSync, waiter: Option<(u64, Vec<u8>)>) {
        if let Some(one) = inner.syncs.0.iter().find(|one| one.sync == sync) {
            one.shared.borrow_mut().waiting.extend(waiter);
            one.again.notify_one();
            return;
        }
        let shared =
            Rc::new(RefCell::new(Standing { waiting: waiter.into_iter().collect(), ..Standing::default() }));
        let again = Rc::new(Notify::new());
        let keeper = Keeper {
            hub: self.clone(),
            sync: sync.clone(),
            shared: Rc::clone(&shared),
            again: Rc::clone(&again),
        };
        let task = Task::spawn(keeper.run());
        inner.syncs.0.push(One { sync, shared, again, _task: task });
    }
}

/// Keeps one file.
struct Keeper {
    hub: Hub,
    sync: FileSync,
    shared: Rc<RefCell<Standing>>,
    again: Rc<Notify>,
}

impl Keeper {
    async fn run(self) {
        let mut pause = PAUSE;
        loop {
            let fault = match self.subscribe().await {
                End::Gone => return,
                End::Faulty(fault) => fault,
            };
            let lasting = fault.lasting;
            self.report(Err(fault));
            tokio::select! {
                () = tokio::time::sleep(pause), if !lasting => {}
                () = self.again.notified() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Subscribes, and keeps the file equal until that ends.
    async fn subscribe(&self) -> End {
        let mut client = Client::connect(&self.hub);
        let wanted = json!({"notifications": {"resourceSubscriptions": [self.sync.uri]}});
        client.send(LISTEN, "subscriptions/listen", wanted).await;
        loop {
            match client.receive().await {
                Heard::Acknowledged(uris) if uris.contains(&self.sync.uri) => break,
                Heard::Acknowledged(_) => {
                    let message = format!("the server announces no updates of {}", self.sync.uri);
                    return End::Faulty(Fault { kind: "unsupported", message, lasting: true });
                }
                Heard::Answer { outcome: Err(fault), .. } => return End::Faulty(fault),
                Heard::Answer { .. } | Heard::End => return End::Gone,
                Heard::Updated | Heard::Other => {}
            }
        }
        let mut pause = PAUSE;
        let mut due = Some(tokio::time::Instant::now());
        loop {
            tokio::select! {
                heard = client.receive() => match heard {
                    Heard::Updated => due = Some(tokio::time::Instant::now()),
                    Heard::Answer { outcome: Err(fault), .. } => return End::Faulty(fault),
                    Heard::Answer { id: LISTEN, .. } | Heard::End => return End::Gone,
                    Heard::Answer { .. } | Heard::Acknowledged(_) | Heard::Other => {}
                },
                () = self.again.notified() => due = Some(tokio::time::Instant::now()),
                () = sleep_until(due) => {
                    due = match self.copy(&mut client).await {
                        Ok(more) => {
                            pause = PAUSE;
                            self.report(Ok(()));
                            more.then(tokio::time::Instant::now)
                        }
                        Err(End::Gone) => return End::Gone,
                        // A disk may have room again, a directory come back, a server have recovered.
                        Err(End::Faulty(fault)) => {
                            self.report(Err(fault));
                            let at = tokio::time::Instant::now() + pause;
                            pause = (pause * 2).min(LONGEST_PAUSE);
                            Some(at)
                        }
                    };
                }
            }
        }
    }

    /// Reads the resource and writes the file. Whether there was an update meanwhile.
    async fn copy(&self, client: &mut Client) -> Result<bool, End> {
        let id = client.next;
        client.next += 1;
        client.send(id, "resources/read", json!({"uri": self.sync.uri})).await;
        let mut more = false;
        let content = loop {
            match client.receive().await {
                Heard::Answer { id: answered, outcome } if answered == id => {
                    break outcome.map_err(End::Faulty)?;
                }
                Heard::Answer { id: LISTEN, outcome: Err(fault) } => return Err(End::Faulty(fault)),
                Heard::Answer { id: LISTEN, .. } | Heard::End => return Err(End::Gone),
                Heard::Updated => more = true,
                Heard::Answer { .. } | Heard::Acknowledged(_) | Heard::Other => {}
            }
        };
        replace(&self.sync.file, &content).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.sync.file.display());
            End::Faulty(Fault { kind: "storage", message, lasting: false })
        })?;
        Ok(more)
    }

    /// Remembers how it stands, and tells whoever waits.
    fn report(&self, outcome: Result<(), Fault>) {
        self.hub.with(|_, inner, _| {
            let waiting = {
                let mut standing = self.shared.borrow_mut();
                match &outcome {
                    Ok(()) => {
                        standing.written = Some(crate::record::now_ms());
                        standing.error = None;
                    }
                    Err(fault) if standing.error.as_ref() != Some(&fault.message) => {
                        inner.host.note(&format!("{} is not kept equal: {}", self.sync.uri, fault.message));
                        standing.error = Some(fault.message.clone());
                    }
                    Err(_) => {}
                }
                std::mem::take(&mut standing.waiting)
            };
            for (connection, id) in waiting {
                match &outcome {
                    Ok(()) => inner.reply(connection, &id, &[b"{}"]),
                    Err(fault) => {
                        let explained = explain::refused(fault.message.clone(), fault.kind);
                        inner.reply_error(connection, Some(&id), explain::CODE, &explained);
                    }
                }
            }
        });
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A connection to the hub that does not leave the process.
struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    /// The beginning of a line whose end has not come: a wait for it may be broken off.
    line: Vec<u8>,
    next: u64,
}

/// What the hub says.
enum Heard {
    Acknowledged(Vec<String>),
    Updated,
    /// The content that was read, if it was.
    Answer {
        id: u64,
        outcome: Result<Vec<u8>, Fault>,
    },
    /// The connection ends.
    End,
    Other,
}

impl Client {
    fn connect(hub: &Hub) -> Self {
        let (ours, theirs) = duplex(PIPE);
        let hub = hub.clone();
        spawn_local(async move {
            let (reader, writer) = split(theirs);
            hub.serve_connection(reader, writer).await;
        });
        let (reader, writer) = split(ours);
        Self { reader: BufReader::new(reader), writer, line: Vec::new(), next: LISTEN + 1 }
    }

    async fn send(&mut self, id: u64, method: &str, mut params: Value) {
        let mut lines = String::new();
        if id == LISTEN {
            let hello = json!({"drowse": {"hello": {"versions": [front::HELLO_VERSION], "verbatim": true}}});
            lines = format!("{hello}\n");
        }
        params["_meta"] = json!({
            message::META_PROTOCOL_VERSION: Revision::LATEST_MODERN.name(),
            message::META_CLIENT_CAPABILITIES: {},
        });
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        lines.push_str(&format!("{request}\n"));
        // A hub that is gone says so by the end of its answers.
        let _ = self.writer.write_all(lines.as_bytes()).await;
    }

    async fn receive(&mut self) -> Heard {
        if !matches!(self.reader.read_until(b'\n', &mut self.line).await, Ok(1..))
            || !self.line.ends_with(b"\n")
        {
            return Heard::End;
        }
        heard(&std::mem::take(&mut self.line))
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    message: String,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Read {
    #[serde(default)]
    contents: Vec<Contents>,
}

#[derive(Deserialize)]
struct Contents {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
}

fn heard(line: &[u8]) -> Heard {
    use drowse_core::relay::wire::{ACKNOWLEDGED, UPDATED};
    let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return Heard::Other };
    match (line.method.as_deref(), line.id) {
        (Some(ACKNOWLEDGED), _) => {
            let uris = line.params["notifications"]["resourceSubscriptions"].clone();
            Heard::Acknowledged(serde_json::from_value(uris).unwrap_or_default())
        }
        (Some(UPDATED), _) => Heard::Updated,
        (Some(crate::wire::GOAWAY), _) => Heard::End,
        (None, Some(id)) => {
            let outcome = match (line.error, line.result) {
                (Some(refused), _) => Err(fault(refused)),
                (None, Some(result)) if id != LISTEN => content(result.get()),
                (None, _) => Ok(Vec::new()),
            };
            Heard::Answer { id, outcome }
        }
        _ => Heard::Other,
    }
}

fn fault(refused: Refused) -> Fault {
    match serde_json::from_value::<Envelope<ErrorData>>(refused.data) {
        Ok(Envelope { drowse }) => Fault {
            kind: drowse.kind.as_str(),
            message: refused.message,
            lasting: drowse.kind == Kind::Unsupported,
        },
        // The server's own.
        Err(_) => Fault { kind: "server-error", message: refused.message, lasting: true },
    }
}

/// What is written: the one content of the resource, or the texts of several one after the other.
fn content(result: &str) -> Result<Vec<u8>, Fault> {
    let bad = |message: &str| Fault { kind: "invalid-answer", message: message.to_owned(), lasting: false };
    let read: Read =
        serde_json::from_str(result).map_err(|_| bad("the server's answer holds no contents"))?;
    if read.contents.is_empty() {
        return Err(bad("the server's answer holds no contents"));
    }
    let mut bytes = Vec::new();
    for contents in read.contents {
        match (contents.text, contents.blob) {
            (Some(text), _) if bytes.is_empty() => bytes = text.into_bytes(),
            (Some(text), _) => bytes.extend_from_slice(text.as_bytes()),
            (None, Some(blob)) => {
                let decoded =
                    base64::decode(&blob).ok_or_else(|| bad("the base64 of the content is damaged"))?;
                bytes.extend_from_slice(&decoded);
            }
            (None, None) => {}
        }
    }
    Ok(bytes)
}

/// Replaces a file: readers see the old content or the new one, never a part. It keeps its mode; a new one gets 0600.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".drowse-{}", std::process::id()));
    let temporary: PathBuf = path.with_file_name(temporary);
    let written = (|| {
        let mut file: File =
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary) {
                // Of a process that had our number and was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&temporary)?;
                    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?
                }
                other => other?,
            };
        file.write_all(content)?;
        if let Ok(known) = fs::metadata(path) {
            file.set_permissions(fs::Permissions::from_mode(known.permissions().mode() & 0o777))?;
        }
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_every_kind() {
        let text = |result: &str| content(result).map_err(|fault| fault.message);
        assert_eq!(text(r#"{"contents":[{"uri":"a","text":"é\n"}]}"#), Ok("é\n".into()));
        assert_eq!(text(r#"{"contents":[{"uri":"a","blob":"AP8="}]}"#), Ok(vec![0, 255]));
        assert_eq!(text(r#"{"contents":[{"uri":"a","text":"x"},{"uri":"b","text":"y"}]}"#), Ok("xy".into()));
        assert_eq!(text(r#"{"contents":[{"uri":"a","text":""}]}"#), Ok(Vec::new()));
        for bad in ["{}", r#"{"contents":[]}"#, r#"{"contents":[{"blob":"?"}]}"#, "[]"] {
            assert!(text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        replace(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(replace(&directory.path().join("no/f"), b"x").is_err());
        assert!(replace(Path::new("/"), b"x").is_err());
    }
}
