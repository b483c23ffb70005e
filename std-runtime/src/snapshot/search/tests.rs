//! Searches against a search that parses everything, and files that are not as they should be.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{PatternError, PatternKind, SCHEMA, Snapshot, read as read_snapshot, write};
use super::*;
use crate::record;

const ALL: Scope = Scope { tools: true, resources: true, prompts: true, instructions: true };

fn pattern(text: &str) -> Pattern {
    Pattern::new(text, PatternKind::default()).unwrap()
}

fn regex(text: &str) -> Pattern {
    Pattern::new(text, PatternKind { regex: true, case_sensitive: false }).unwrap()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn snapshot(instructions: Option<&str>, lists: [&[&str]; 4]) -> Snapshot {
    let list = |items: &[&str]| items.iter().map(|item| raw(item)).collect();
    Snapshot {
        header: Header {
            schema: SCHEMA,
            identity: "i".into(),
            taken: 5,
            generation: 2,
            era: "modern".into(),
            protocol_version: "2026-07-28".into(),
            server_info: Some(raw(r#"{"name":"server"}"#)),
            capabilities: None,
            instructions: instructions.map(str::to_owned),
            incomplete: Vec::new(),
        },
        tools: list(lists[0]),
        prompts: list(lists[1]),
        resources: list(lists[2]),
        resource_templates: list(lists[3]),
    }
}

/// A hit, its object as text.
type Shown = (Kind, String, Vec<(Place, String)>);

fn found(bytes: &[u8], pattern: &Pattern, scope: Scope) -> Vec<Shown> {
    match content(bytes, "i", pattern, scope, usize::MAX).unwrap() {
        Searched::Through { hits, .. } => {
            hits.into_iter().map(|hit| (hit.kind, hit.object.get().to_owned(), hit.matched)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// What is found, by the names (or addresses) of what matches.
fn names(bytes: &[u8], pattern: &Pattern) -> Vec<String> {
    let name = |(kind, object, _): Shown| {
        let item = raw(&object);
        let name = super::object(&item).and_then(|members| string(members.get("name")?));
        format!("{} {}", kind.as_str(), name.unwrap_or_default())
    };
    found(bytes, pattern, ALL).into_iter().map(name).collect()
}

const FILES: &str = r##"{"name":"read_file","title":"Lesen","description":"First.\nSecond \"quoted\" a\/b caf\u00e9 \u003cb\u003e","inputSchema":{"type":"object","description":"of all","properties":{"path":{"type":"string","description":"where"},"how":{"$ref":"#/$defs/h"},"deep":{"items":{"properties":{"inner":{"title":"Innermost"}}}}},"$defs":{"h":{"enum":["secretvalue"],"default":{"description":"hiddenvalue"}}}}}"##;

fn example() -> Snapshot {
    snapshot(
        Some("Be kind.\nUse read_file"),
        [
            &[FILES, r#"{"name":7,"annotations":{"title":"Old title"},"description":null}"#],
            &[r#"{"name":"greet","arguments":[{"name":"who","description":"whom to greet"},7]}"#],
            &[r#"{"uri":"file:\/\/a\/b","name":"ab"}"#],
            &[r#"{"uriTemplate":"file:///{path}","name":"any"}"#],
        ],
    )
}

#[test]
fn every_text_that_a_search_looks_at_and_no_other() {
    let bytes = example().to_bytes();
    for (text, where_) in [
        ("READ_FILE", &["instructions ", "tool read_file"][..]),
        ("lesen", &["tool read_file"]),
        ("second \"QUOTED\"", &["tool read_file"]),
        ("a/b", &["tool read_file", "resource ab"]),
        ("CAFÉ <b>", &["tool read_file"]),
        ("first.\nsecond", &["tool read_file"]),
        ("of all", &["tool read_file"]),
        ("innermost", &["tool read_file"]),
        ("inner", &["tool read_file"]),
        ("old title", &["tool "]),
        ("whom", &["prompt greet"]),
        ("who", &["prompt greet"]),
        ("file:///{", &["resourceTemplate any"]),
        ("be kind", &["instructions "]),
        ("string", &[]),
        ("secretvalue", &[]),
        ("hiddenvalue", &[]),
        ("inputSchema", &[]),
        ("server", &[]),
        ("modern", &[]),
    ] {
        assert_eq!(names(&bytes, &pattern(text)), where_, "{text}");
    }
    assert_eq!(names(&bytes, &pattern("")).len(), 6, "an empty pattern is everywhere");
    let places = |text: &str| found(&bytes, &pattern(text), ALL).pop().unwrap().2;
    assert_eq!(places("innermost"), [(Place::OfArgument("deep.inner".into()), "Innermost".into())]);
    assert_eq!(places("inner")[0], (Place::Argument("deep.inner".into()), "inner".into()));
    assert_eq!(places("of all"), [(Place::OfArgument(String::new()), "of all".into())]);
    let object = &found(&bytes, &pattern("lesen"), ALL)[0].1;
    assert_eq!(object, FILES, "byte for byte");
}

#[test]
fn the_scope_decides_what_is_looked_at() {
    let bytes = example().to_bytes();
    let none = Scope { tools: false, resources: false, prompts: false, instructions: false };
    for (scope, kinds) in [
        (none, &[][..]),
        (Scope { tools: true, ..none }, &[Kind::Tool, Kind::Tool]),
        (Scope { prompts: true, ..none }, &[Kind::Prompt]),
        (Scope { resources: true, ..none }, &[Kind::Resource, Kind::ResourceTemplate]),
        (Scope { instructions: true, ..none }, &[Kind::Instructions]),
    ] {
        let kinds_found: Vec<_> = found(&bytes, &pattern(""), scope).iter().map(|hit| hit.0).collect();
        assert_eq!(kinds_found, kinds);
    }
}

#[test]
fn expressions() {
    let bytes = example().to_bytes();
    for (text, matches) in [
        (r"^second\b", 1),
        (r"kind\.$", 1),
        (r"read.file", 2),
        (r"first.second", 0),
        (r"(?s)first\..second", 1),
        (r"\w+_file\b", 2),
        (r"[a-z]{5}med", 0),
        (r"^\w+$", 4),
        (r#""quoted""#, 1),
        (r"\x41nything|<b>", 1),
        (r"[^\x00-\x7f]", 1),
        (r"(?-i)Lesen", 1),
        (r"(?-i)lesen", 0),
        (r"", 6),
        (r"a{0}", 6),
        (r"[a&&b]", 0),
    ] {
        assert_eq!(names(&bytes, &regex(text)).len(), matches, "{text}: {:?}", names(&bytes, &regex(text)));
    }
    let sensitive = Pattern::new("lesen", PatternKind { regex: false, case_sensitive: true }).unwrap();
    assert_eq!(names(&bytes, &sensitive), [""; 0]);
}

#[test]
fn expressions_that_are_none() {
    let bad =
        |text: &str| Pattern::new(text, PatternKind { regex: true, case_sensitive: false }).unwrap_err();
    assert_eq!(bad("(a").to_string(), "`(a` is not a regular expression: unclosed group");
    assert!(matches!(bad("a**{"), PatternError::Syntax { .. }));
    assert_eq!(bad(r"(\w{1000}){1000}"), PatternError::TooLarge);
    assert!(bad("(?=x)").to_string().contains("look-around"), "{}", bad("(?=x)"));
    pattern("(a");
}

#[test]
fn files_of_another_layout_are_read_as_what_they_are() {
    let bytes = example().to_bytes();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let mut more = value.clone();
    more["later"] = json!([{"name": "read_file"}]);
    let mut fewer = value.clone();
    fewer.as_object_mut().unwrap().remove("resources");
    for (bytes, count) in [
        (serde_json::to_vec_pretty(&value).unwrap(), 6),
        (serde_json::to_vec(&value).unwrap(), 6),
        (serde_json::to_vec_pretty(&more).unwrap(), 6),
        (serde_json::to_vec(&fewer).unwrap(), 5),
        (text.replace('\n', "\r\n").into_bytes(), 6),
        (text.trim_end().as_bytes().to_vec(), 6),
        // An item that an editor broke, in a file that begins and ends as ours.
        (text.replace(r#""title":"Lesen""#, "\n\"title\":\"Lesen\"\n").into_bytes(), 6),
        (text.replace(r#"{"name":"who""#, "\n{\"name\":\"who\"").into_bytes(), 6),
        (text.replace("\"tools\":[\n", "\"tools\": [\n").into_bytes(), 6),
        (
            text.replace("\"tools\":[\n", "\"later\":[\n{\"name\":\"lesen\"}\n],\n\"tools\":[\n")
                .into_bytes(),
            6,
        ),
    ] {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(names(&bytes, &pattern("lesen")), ["tool read_file"], "{shown}");
        assert_eq!(found(&bytes, &pattern("e"), ALL).len(), count, "{shown}");
        assert!(names(&bytes, &pattern("nothing of it")).is_empty());
    }
}

#[test]
fn files_that_are_no_snapshots() {
    let whole = example().to_bytes();
    let defect = |bytes: &[u8]| content(bytes, "i", &pattern("lesen"), ALL, 9).unwrap_err();
    for cut in [0, 1, 30, whole.len() / 3, whole.len() / 2, whole.len() - 3] {
        assert!(matches!(defect(&whole[..cut]), Defect::Malformed(what) if what == "it is cut off"), "{cut}");
    }
    for bytes in [&b"\xff\xfe"[..], b"[]", b"null", b"{}", b"{\"schema\":1}", b"\0\0\0", b"not JSON"] {
        assert!(matches!(defect(bytes), Defect::Malformed(_)), "{bytes:?}");
    }
    // Within an item: seen where it matters.
    let mut foreign = whole.clone();
    let at = memchr::memmem::find(&whole, b"Lesen").unwrap();
    foreign[at + 5] = 0xff;
    assert!(matches!(defect(&foreign), Defect::Malformed(_)));
    let newer = |text: &str| defect(text.as_bytes());
    assert_eq!(newer(r#"{"schema":9,"all":"else"}"#), Defect::Newer(9));
    let text = String::from_utf8(whole).unwrap().replace("\"schema\":1", "\"schema\":2");
    assert_eq!(newer(&text), Defect::Newer(2));
}

#[test]
fn a_hostile_schema_ends() {
    let deep = format!(
        "{{\"name\":\"t\",\"inputSchema\":{}1{}}}",
        "{\"properties\":{\"p\":".repeat(5000),
        "}}".repeat(5000)
    );
    let numbers = r#"{"name":"n","inputSchema":{"maximum":1e999,"properties":{"needle":{"default":1e999}}}}"#;
    let bytes = snapshot(None, [&[&deep, numbers], &[], &[], &[]]).to_bytes();
    assert_eq!(names(&bytes, &pattern("p")), ["tool t"]);
    assert_eq!(names(&bytes, &pattern("needle")), ["tool n"]);
}

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("h"), None);
    home.prepare().unwrap();
    (dir, home)
}

#[test]
fn many_sessions_in_their_order_and_no_more_than_wanted() {
    let (_dir, home) = home();
    let names: Vec<_> = (0..50).map(|n| SessionName::new(&format!("s{n:02}")).unwrap()).collect();
    for name in &names {
        record::make_directory(&home, name).unwrap();
    }
    for name in &names[..40] {
        write(&home, name, &example()).unwrap();
    }
    fs::write(home.snapshot_file(&names[3]), "{").unwrap();
    let jobs: Vec<_> = names.iter().map(|name| Job { name, identity: "i" }).collect();
    let all = search(&home, &jobs, &pattern("lesen"), ALL, None);
    assert!(matches!(&all[3], Err(SnapshotError::Malformed { .. })));
    for (index, searched) in all.iter().enumerate().filter(|(index, _)| *index != 3) {
        match searched {
            Ok(Searched::Through { header, hits }) if index < 40 => {
                assert_eq!((header.taken, hits.len()), (5, 1), "{index}");
            }
            Ok(Searched::Missing) if index >= 40 => {}
            other => panic!("{index}: {other:?}"),
        }
    }
    let other = [Job { name: &names[0], identity: "" }];
    assert!(matches!(search(&home, &other, &pattern("lesen"), ALL, None)[0], Ok(Searched::OfAnother)));
    let few = search(&home, &jobs, &pattern("lesen"), ALL, Some(7));
    let hits = |searched: &Result<Searched, SnapshotError>| match searched {
        Ok(Searched::Through { hits, .. }) => hits.len(),
        _ => 0,
    };
    let first: usize = few[..8].iter().map(hits).sum();
    assert_eq!(first, 7, "those that stand first are all there");
    assert!(few[20..].iter().all(|one| matches!(one, Ok(Searched::NotNeeded))), "and no more was done");
    assert!(search(&home, &[], &pattern("x"), ALL, None).is_empty());
}

#[test]
fn what_stands_in_the_place_of_a_file_is_said_and_waited_for_never() {
    let (_dir, home) = home();
    let name = SessionName::new("x").unwrap();
    record::make_directory(&home, &name).unwrap();
    assert!(read_snapshot(&home, &name).unwrap().is_none());
    let path = home.snapshot_file(&name);
    let says = || read_snapshot(&home, &name).unwrap_err().to_string();
    fs::create_dir(&path).unwrap();
    assert!(says().contains("snapshot.json is damaged (it is not a file)"), "{}", says());
    fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(says().contains("not a file"), "{}", says());
    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(read::MAX_BYTES as u64 + 1).unwrap();
    assert!(says().contains("larger than any snapshot"), "{}", says());
    // What the kernel writes has no size before it is read.
    fs::remove_file(&path).unwrap();
    symlink("/proc/self/maps", &path).unwrap();
    assert!(says().contains("is damaged") && says().contains("drowse restart @x"), "{}", says());
    fs::remove_file(&path).unwrap();
    fs::write(&path, r#"{"schema":7}"#).unwrap();
    assert!(says().contains("newer drowse (schema 7") && says().contains("drowse restart @x"), "{}", says());
    write(&home, &name, &example()).unwrap();
    let back = read_snapshot(&home, &name).unwrap().unwrap();
    assert_eq!(back.to_bytes(), example().to_bytes());
}

/// Letters that have something to them: cases, escapes, folding across ASCII, more than one unit of UTF-16.
fn letters() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        6 => prop::sample::select(vec!['a', 'b', 'A', 'k', 's', 'e']),
        3 => prop::sample::select(vec!['\n', '"', '\\', '/', '<', '\u{1}', '\t', ' ', '_']),
        2 => prop::sample::select(vec!['é', 'É', 'ſ', '\u{212a}', 'ß', '🐎', 'u', 'n', '0']),
    ];
    prop::collection::vec(letter, 0..7).prop_map(String::from_iter)
}

/// A string as JSON, each character spelled in one of the ways that there are.
fn spelling(text: &str, choices: &[u8]) -> String {
    let mut out = String::from("\"");
    for (index, c) in text.chars().enumerate() {
        let choice = choices.get(index % choices.len().max(1)).copied().unwrap_or(0) % 6;
        let must = c < ' ' || c == '"' || c == '\\';
        match choice {
            0 | 1 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    out.push_str("\\u");
                    out.push_str(&if choice == 0 { digits } else { digits.to_uppercase() });
                }
            }
            2 if c == '/' => out.push_str("\\/"),
            _ if must => {
                let plain = serde_json::to_string(&c).unwrap();
                out.push_str(&plain[1..plain.len() - 1]);
            }
            _ => out.push(c),
        }
    }
    out + "\""
}

#[derive(Debug, Clone)]
struct Texts {
    name: String,
    description: String,
    argument: String,
    about: String,
    choices: Vec<u8>,
}

fn items() -> impl Strategy<Value = Vec<Texts>> {
    let texts = (letters(), letters(), letters(), letters(), prop::collection::vec(0u8..6, 1..8));
    let texts = texts.prop_map(|(name, description, argument, about, choices)| Texts {
        name,
        description,
        argument,
        about,
        choices,
    });
    prop::collection::vec(texts, 0..5)
}

fn expressions_of() -> impl Strategy<Value = (String, PatternKind)> {
    let piece = prop_oneof![
        3 => letters().prop_map(|text| regex::escape(&text)),
        1 => prop::sample::select(vec![
            ".", ".*", "^", "$", r"\b", r"\w+", "[ak]", "(?:ab|É)", "a?", "[^a]", r"\s", "k{2}", "(?:)", "s+",
            r#"["\\/]"#, "(?i:S)",
        ])
        .prop_map(str::to_owned),
    ];
    let expression = prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat());
    prop_oneof![
        (letters(), any::<bool>())
            .prop_map(|(text, case_sensitive)| (text, PatternKind { regex: false, case_sensitive })),
        (expression, any::<bool>())
            .prop_map(|(text, case_sensitive)| (text, PatternKind { regex: true, case_sensitive })),
    ]
}

/// Every text of an item, by way of a tree.
fn naive_texts(kind: Kind, item: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let mut add = |value: &Value| texts.extend(value.as_str().map(str::to_owned));
    for key in ["name", "title", "description"] {
        add(&item[key]);
    }
    match kind {
        Kind::Resource => add(&item["uri"]),
        Kind::ResourceTemplate => add(&item["uriTemplate"]),
        Kind::Prompt => {
            for argument in item["arguments"].as_array().into_iter().flatten() {
                add(&argument["name"]);
                add(&argument["description"]);
            }
        }
        Kind::Tool => {
            for (name, property) in item["inputSchema"]["properties"].as_object().into_iter().flatten() {
                add(&json!(name));
                add(&property["description"]);
            }
        }
        Kind::Instructions => {}
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_found_but_what_parsing_everything_finds(
        lists in [items(), items(), items(), items()],
        instructions in prop::option::of(letters()),
        (text, kind) in expressions_of(),
        reflow in any::<bool>(),
    ) {
        let kinds = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::ResourceTemplate];
        let written: Vec<Vec<String>> = kinds.iter().zip(&lists).map(|(kind, list)| {
            list.iter().map(|texts| {
                let spell = |text: &str| spelling(text, &texts.choices);
                let (name, description) = (spell(&texts.name), spell(&texts.description));
                let (argument, about) = (spell(&texts.argument), spell(&texts.about));
                match kind {
                    Kind::Tool => format!(
                        r#"{{"name":{name},"description":{description},"inputSchema":{{"properties":{{{argument}:{{"description":{about}}}}}}}}}"#
                    ),
                    Kind::Prompt => format!(
                        r#"{{"name":{name},"description":{description},"arguments":[{{"name":{argument},"description":{about}}}]}}"#
                    ),
                    Kind::Resource => format!(r#"{{"name":{name},"title":{description},"uri":{about}}}"#),
                    _ => format!(r#"{{"uriTemplate":{about},"name":{name},"description":{description}}}"#),
                }
            }).collect()
        }).collect();
        let borrowed: Vec<Vec<&str>> =
            written.iter().map(|list| list.iter().map(String::as_str).collect()).collect();
        let all = snapshot(
            instructions.as_deref(),
            [&borrowed[0], &borrowed[1], &borrowed[2], &borrowed[3]],
        );
        let mut bytes = all.to_bytes();
        if reflow {
            bytes = bytes.iter().flat_map(|&byte| if byte == b',' { vec![b',', b' '] } else { vec![byte] }).collect();
            if serde_json::from_slice::<Value>(&bytes).is_err() {
                return Ok(());
            }
        }
        let Ok(pattern) = Pattern::new(&text, kind) else { return Ok(()) };
        let expected: Vec<(Kind, Value)> = kinds.iter().zip(&borrowed).flat_map(|(kind, list)| {
            let pattern = &pattern;
            list.iter().filter_map(move |item| {
                let item: Value = serde_json::from_str(item).unwrap();
                naive_texts(*kind, &item).iter().any(|text| pattern.is_in(text)).then_some((*kind, item))
            })
        }).collect();
        let expected = instructions.iter().filter(|text| pattern.is_in(text))
            .map(|text| (Kind::Instructions, json!(text))).chain(expected).collect::<Vec<_>>();
        let found: Vec<(Kind, Value)> = found(&bytes, &pattern, ALL).into_iter()
            .map(|(kind, object, _)| (kind, serde_json::from_str(&object).unwrap())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn nothing_breaks_whatever_the_bytes(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..4),
        (text, kind) in expressions_of(),
    ) {
        let mut bytes = example().to_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + 2).min(bytes.len()), with);
        let Ok(pattern) = Pattern::new(&text, kind) else { return Ok(()) };
        let _ = content(&bytes, "i", &pattern, ALL, 9);
    }
}
