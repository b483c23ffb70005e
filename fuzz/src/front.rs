//! The front under any lines, and what is rewritten for a server.

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::envelope;
use drowse_core::era::Revision;
use drowse_core::front::{Front, Inbound};
use drowse_core::link::Allowance;
use drowse_core::span::Span;
use drowse_core::splice::{self, LegacyClient, Origin, Rewrite};
use drowse_core::time::Duration;

/// `data` as a connection's lines: whatever is accepted is, rewritten, one message of the same method for either era.
pub(crate) fn lines(data: &[u8]) {
    connection(Front::new(), data);
    connection(Front::of(Asker::DevProxy), data);
}

fn connection(mut front: Front, data: &[u8]) {
    let allowance = Allowance { quiet: Duration::from_secs(1), total: Duration::from_secs(2) };
    for line in data.split(|byte| *byte == b'\n') {
        let before = front.read_count();
        let inbound = front.handle_frame(line, allowance);
        assert!(front.read_count() - before <= 1);
        let Inbound::Operation { parts, token, .. } = inbound else { continue };
        let info = b"{}";
        let client = LegacyClient { info: Span::new(0, 2), capabilities: ClientCapabilities::default() };
        for revision in Revision::ALL {
            let from = if front.is_legacy() { Origin::Legacy(&client) } else { Origin::Verbatim };
            let how = Rewrite { wire: 77, progress: token.is_some(), revision, level: None, from };
            let Ok(pieces) = splice::request(line, &parts, &how) else { continue };
            let mut buffer = vec![0; pieces.len()];
            let out = pieces.write(line, info, &mut buffer).expect("its own length is enough");
            let Ok(envelope::Message::Request { id, method, .. }) = envelope::read(out) else {
                panic!("no request: {}", String::from_utf8_lossy(out));
            };
            assert_eq!(id.of(out), b"77");
            assert_eq!(method.of(out), parts.method.of(line));
        }
    }
}
