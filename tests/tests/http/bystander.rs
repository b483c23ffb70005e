//! Another session of the same home, which is to notice nothing.

use drowse_tests::harness::{Home, HttpServer, Session};

/// One that is awake, on a server of its own.
#[derive(Debug)]
pub(super) struct Bystander<'h> {
    session: Session<'h>,
    server: HttpServer,
}

impl<'h> Bystander<'h> {
    pub(super) fn of(home: &'h Home) -> Self {
        let server = HttpServer::start(&["--era", "legacy"]);
        let session = home.connect_http("@bystander", &[], &server);
        Self { session, server }
    }

    /// That it still has the session that it had.
    #[track_caller]
    pub(super) fn noticed_nothing(&self) {
        assert_eq!(self.session.call("tag", &["tag=bystander"]).ok().text(), "bystander");
        assert_eq!(self.server.executions("bystander"), 1, "another session was disturbed");
        assert_eq!(self.server.events("session").len(), 1, "another session was disturbed");
        assert_eq!(self.session.state().expect("a state").generation, 1, "another session was disturbed");
    }
}
