//! Keeping the server otherwise while the bridge lives: `drowse/set`.

use drowse_core::logging::Level;
use drowse_core::time::Instant;
use serde_json::json;

use super::Inner;
use crate::bridge::explain;
use crate::bridge::settings::kept;
use crate::wire::{Keep, Kind, Reshare};

impl Inner {
    /// Whoever asks has written it down already.
    pub(super) fn set(&mut self, now: Instant, connection: u64, id: &[u8], params: &[u8]) {
        let read = serde_json::from_slice::<Keep>(params).map_err(|error| format!("the params: {error}"));
        let read = read.and_then(|keep| match keep.log_level.as_deref() {
            None => Ok((keep.settings, None, keep.share)),
            Some("none") => Ok((keep.settings, Some(None), keep.share)),
            Some(name) => match Level::from_name(name) {
                Some(level) => Ok((keep.settings, Some(Some(level)), keep.share)),
                None => Err("there is no such log level".to_owned()),
            },
        });
        match read {
            Ok((settings, level, share)) => {
                let mut answer = json!({});
                if let Some(Reshare { at }) = &share {
                    match self.host.share(at.as_ref()) {
                        Ok(url) => answer["sharedAt"] = json!(url),
                        Err(text) => {
                            let explained = explain::refused(text, Kind::NotShared.as_str());
                            return self.reply_error(connection, Some(id), explain::CODE, &explained);
                        }
                    }
                    self.config.server.lifecycle.listens = at.is_some();
                    self.server.set_listens(now, at.is_some());
                }
                let kept = kept(&settings);
                self.server.keep(now, kept);
                self.config.server = self.config.server.with(kept);
                // One that is no news was said to the server already.
                if let Some(level) = level {
                    self.base_level = level;
                    self.apply_levels();
                }
                self.reply(connection, id, &[answer.to_string().as_bytes()]);
            }
            Err(text) => {
                let explained = explain::refused(text, "invalid-request");
                self.reply_error(connection, Some(id), -32602, &explained);
            }
        }
    }
}
