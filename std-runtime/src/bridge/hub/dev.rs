//! What the dev proxy needs of the hub beyond what a bridge does.

use super::*;

impl Hub {
    /// Kills the server, if it is being ended and takes its time.
    pub fn kill(&self) {
        self.with(|_, inner, _| {
            if let Some(running) = &inner.running {
                running.control.kill();
            }
        });
    }
}
