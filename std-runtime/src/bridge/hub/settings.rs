//! Keeping the server otherwise while the bridge lives: `drowse/set`.

use drowse_core::logging::Level;
use drowse_core::time::Instant;

use super::Inner;
use crate::bridge::explain;
use crate::bridge::settings::kept;
use crate::wire::Keep;

impl Inner {
    /// Whoever asks has written it down already.
    pub(super) fn set(&mut self, now: Instant, connection: u64, id: &[u8], params: &[u8]) {
        let read = serde_json::from_slice::<Keep>(params).map_err(|error| format!("the params: {error}"));
        let read = read.and_then(|keep| match keep.log_level.as_deref() {
            None => Ok((keep.settings, None)),
            Some("none") => Ok((keep.settings, Some(None))),
            Some(name) => match Level::from_name(name) {
                Some(level) => Ok((keep.settings, Some(Some(level)))),
                None => Err("there is no such log level".to_owned()),
            },
        });
        match read {
            Ok((settings, level)) => {
                let kept = kept(&settings);
                self.server.keep(now, kept);
                self.config.server = self.config.server.with(kept);
                // One that is no news was said to the server already.
                if let Some(level) = level {
                    self.base_level = level;
                    self.apply_levels();
                }
                self.reply(connection, id, &[b"{}"]);
            }
            Err(text) => {
                let explained = explain::refused(text, "invalid-request");
                self.reply_error(connection, Some(id), -32602, &explained);
            }
        }
    }
}
