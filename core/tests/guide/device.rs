// The device of the example in docs/embedding.md: its clock stands still unless it waits, and its server answers at once.

use drowse_core::time::Instant;

#[derive(Default)]
pub struct Device {
    micros: u64,
    unread: Vec<u8>,
    pub asleep: bool,
}

impl Device {
    pub fn now(&self) -> Instant {
        Instant::from_micros(self.micros)
    }

    pub fn wait_until(&mut self, at: Instant) {
        self.micros = at.as_micros();
    }

    /// What the server wrote, as far as it fits.
    pub fn read(&mut self, space: &mut [u8]) -> usize {
        let taken = space.len().min(self.unread.len());
        for (slot, byte) in space.iter_mut().zip(self.unread.drain(..taken)) {
            *slot = byte;
        }
        taken
    }

    /// A line for the server.
    pub fn write_line(&mut self, line: &[u8]) {
        let line = std::str::from_utf8(line).unwrap();
        let id = line.split("\"id\":").nth(1).unwrap().split(',').next().unwrap();
        let discover = line.contains("server/discover");
        let result = if discover { r#"{"supportedVersions":["2026-07-28"]}"# } else { "{}" };
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
        self.unread.extend(answer.bytes());
    }
}
