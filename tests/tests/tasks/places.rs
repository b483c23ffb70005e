//! A session with tasks in either era and on either transport.

use drowse_tests::harness::{ERAS, Home, HttpServer, Session, at_once};

/// Runs a test on a session of each kind, all at once. The test is told the era.
pub(crate) fn everywhere(flags: &[&str], test: impl Fn(&Session<'_>, &'static str) + Sync) {
    let kinds = ERAS.into_iter().flat_map(|era| [(era, false), (era, true)]);
    at_once(
        kinds.map(|(era, http)| (format!("{era} {}", if http { "http" } else { "stdio" }), (era, http))),
        |kind| {
            let (era, http) = kind;
            let home = Home::new();
            let fixture = ["--era", era, "--tasks"];
            if http {
                let server = HttpServer::start(&fixture);
                test(&home.connect_http("@s", flags, &server), era);
            } else {
                test(&home.connect("@s", flags, &fixture), era);
            }
        },
    );
}
