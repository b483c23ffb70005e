//! The machine, and beside it one that is told everything through a trace: written as a line, read, and replayed. Both
//! have to say the same.

use core::ops::Deref;

use drowse_core::time::Instant;
use drowse_core::trace::{self, Input, Output};

use crate::adapter::{LINE, Machine};
use crate::board::{self, Do};

/// A machine and its replay.
pub struct Traced {
    server: Machine,
    replayed: Machine,
}

impl Traced {
    /// Starts both.
    pub fn new(server: Machine) -> Self {
        Self { replayed: server.clone(), server }
    }

    /// Hands in one input.
    pub fn put(&mut self, now: Instant, input: Input<'_>) -> Output {
        if crate::LEAN {
            return self.server.replay(now, input);
        }
        let mut buffer = [0; LINE + trace::MAX_BESIDE_FRAME];
        let replayed = trace::write(now, &input, &mut buffer).ok().and_then(|line| {
            let (at, again) = trace::parse(line).ok()?;
            (at == now && again == input).then(|| self.replayed.replay(at, again))
        });
        let output = self.server.replay(now, input);
        let alike = replayed == Some(output)
            && self.replayed.state() == self.server.state()
            && self.replayed.negotiated() == self.server.negotiated()
            && self.replayed.timetable() == self.server.timetable();
        if !alike {
            board::act(Do::Diverged, 0);
        }
        output
    }
}

impl Deref for Traced {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.server
    }
}
