//! `grep` and `--cached`, end to end: what sleeps is found and stays asleep.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod search {
    mod cached;
    mod damaged;
    mod live;
    mod sleeping;

    use std::fs;

    use drowse_runtime::home::SessionName;
    use drowse_runtime::snapshot::{self, Header, SCHEMA, Snapshot};
    use drowse_tests::harness::{Home, now_ms};
    use serde_json::Value;
    use serde_json::value::RawValue;

    const HOUR: u64 = 3_600_000;

    fn raw(json: &Value) -> Box<RawValue> {
        RawValue::from_string(json.to_string()).unwrap()
    }

    /// What a session's server offered three hours ago.
    fn snapshot(home: &Home, name: &str, tools: &[Value]) -> Snapshot {
        let session = home.session(name);
        Snapshot {
            header: Header {
                schema: SCHEMA,
                identity: session.record().identity,
                taken: now_ms() - 3 * HOUR - 60_000,
                generation: session.state().map_or(0, |state| state.generation),
                era: "modern".into(),
                protocol_version: "2026-07-28".into(),
                server_info: Some(raw(&serde_json::json!({"name": "kept", "version": "1"}))),
                capabilities: Some(raw(&serde_json::json!({"tools": {}}))),
                instructions: None,
                incomplete: Vec::new(),
            },
            tools: tools.iter().map(raw).collect(),
            prompts: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
        }
    }

    fn write(home: &Home, name: &str, snapshot: &Snapshot) {
        snapshot::write(home.files(), &SessionName::new(name).unwrap(), snapshot).unwrap();
    }

    /// A session that was never started, with these tools.
    fn dormant(home: &Home, name: &str, tools: &[Value]) {
        home.connect(name, &["--lazy"], &[]);
        write(home, name, &snapshot(home, name, tools));
    }

    /// All files of a session but its log, with their content.
    fn files(home: &Home, name: &str) -> Vec<(String, Vec<u8>)> {
        let directory = home.files().session(&SessionName::new(name).unwrap());
        let mut files: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}
