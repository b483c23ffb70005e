//! What a client says on its stream while requests of it wait for room.

use std::collections::VecDeque;

use drowse_core::front::place::Place;

use super::callers::Flow;
use super::*;

/// What a line costs beyond its bytes.
const ENTRY: usize = 64;

/// Lines that wait, in their order.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<Bytes>,
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, line: Bytes) {
        self.bytes += line.len() + ENTRY;
        self.lines.push_back(line);
    }

    fn pop(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len() + ENTRY;
        }
    }
}

impl Hub {
    /// Hands in a line that found no room, and those behind it, as soon as there is some. What makes room is not one of
    /// those. Notices meanwhile if the caller goes: then `false`.
    pub(super) async fn wait_for_room(
        &self,
        id: u64,
        line: Bytes,
        intake: &mut Intake,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> bool {
        let mut waiting = Waiting::default();
        waiting.push(line);
        loop {
            while let Some(line) = waiting.lines.front() {
                match self.client_frame(id, &Heard::Long(line.clone())) {
                    Flow::Next | Flow::Greeted => waiting.pop(),
                    Flow::Close => return false,
                    Flow::Wait => break,
                }
            }
            if waiting.lines.is_empty() {
                return true;
            }
            let mut made_room = false;
            // What is answered meanwhile has to be read, too.
            while waiting.bytes < CLIENT_BACKLOG
                && self.client_backlog(id) <= CLIENT_BACKLOG
                && let Some((frame, _)) = intake.poll()
            {
                let line = match frame {
                    Heard::Line(line) => Bytes::copy_from_slice(line),
                    Heard::Long(line) => line,
                    Heard::Oversize(_) => {
                        self.client_frame(id, &frame);
                        continue;
                    }
                };
                let place = Place::of(&line, self.has_dev_tools());
                let mut waits = matches!(place, Place::Behind | Place::Both);
                if place != Place::Behind {
                    match self.client_frame(id, &Heard::Long(line.clone())) {
                        Flow::Next | Flow::Greeted => made_room |= place != Place::Ours,
                        Flow::Close => return false,
                        Flow::Wait => waits = true,
                    }
                }
                if waits {
                    waiting.push(line);
                }
            }
            if made_room {
                continue;
            }
            let is_read = self.client_backlog(id) <= CLIENT_BACKLOG;
            tokio::select! {
                () = self.0.room.notified() => {}
                () = self.backlog_at_most(id, CLIENT_BACKLOG), if !is_read => {}
                more = intake.read(reader),
                    if is_read && waiting.bytes + intake.decoder.pending() < CLIENT_BACKLOG =>
                {
                    if !matches!(more, Ok(true)) {
                        return false;
                    }
                }
            }
        }
    }
}
