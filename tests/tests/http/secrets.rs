//! What users send along (`-H`) goes to the server, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use drowse_tests::harness::{Home, HttpServer, in_both_eras};

use super::seen::lives;

const SECRETS: [&str; 3] = ["s3cret-of-authorization", "s3cret-of-a-key", "s3cret-of-another"];

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path()),
            Ok(kind) if kind.is_file() => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

fn has_secret(bytes: &[u8]) -> bool {
    SECRETS.iter().any(|secret| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
}

#[test]
fn headers_are_sent_and_told_to_nobody() {
    in_both_eras(|era| {
        let mut server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let headers = [
            format!("Authorization: Bearer {}", SECRETS[0]),
            format!("X-Key: {}", SECRETS[1]),
            format!("X-Key: {}", SECRETS[2]),
        ];
        let flags: Vec<&str> = headers.iter().flat_map(|header| ["-H", header.as_str()]).collect();
        let (session, run) = home.try_connect_http("@s", &flags, &server);
        let mut said = vec![run.ok()];
        said.push(session.call("tag", &["tag=a"]).ok());
        // Everything that can go wrong, so that all of it is said somewhere.
        for fault in [
            "status=500",
            "status=401",
            "html=200",
            "close=reset",
            "gzip=1000",
            "redirect=302;to=other",
            "hang",
        ] {
            server.fault(&format!("{fault};times=1;on=tools/call"));
            said.push(session.call("tag", &["tag=b", "--timeout", "1"]));
            said.push(session.run(["logs"]));
            said.push(home.run(["--json"]));
            said.push(session.run([]));
            if fault == "status=401" {
                said.push(session.run(["restart"]).ok());
            }
        }
        // With what is said by a bridge and by a caller when nobody answers.
        server.stop();
        said.push(session.call("tag", &["tag=c"]));
        said.push(session.run(["restart"]));
        said.push(home.run(["@s", "tools-call", "tag", "tag=c", "--verbose"]));
        server.restart();
        said.push(session.run(["restart"]).ok());
        for run in &said {
            assert!(!has_secret(run.out.as_bytes()) && !has_secret(run.err.as_bytes()), "{run:?}");
        }
        lives(&session, &server);
        // In every request, each line of it.
        for request in server.events("http") {
            let headers = request.fields["headers"].to_string();
            assert!(headers.contains(SECRETS[0]), "{request:?}");
        }
        for file in files(home.path()) {
            let holds = has_secret(&fs::read(&file).unwrap());
            let keeps = file.file_name().is_some_and(|name| name == "credentials.json");
            assert_eq!(holds, keeps, "{}", file.display());
            if keeps {
                assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "nobody else's");
            }
        }
        let bridge = session.state().unwrap().bridge.unwrap().pid;
        for of in ["cmdline", "environ"] {
            assert!(!has_secret(&fs::read(format!("/proc/{bridge}/{of}")).unwrap()), "{of} of the bridge");
        }
    });
}

/// Both lines of a header that is given twice arrive.
#[test]
fn a_header_may_be_given_more_than_once() {
    let log = super::mirror::Mirror::start();
    let home = Home::new();
    let run = home.run(["connect", &log.url(), "@s", "--json", "-H", "X-Key: one", "-H", "X-Key: two"]);
    assert_ne!(run.code, 0);
    let heard = log.heard().join("\n").to_ascii_lowercase();
    assert!(heard.contains("x-key: one") && heard.contains("x-key: two"), "{heard}");
}
