//! What a client can be asked for: as drowse declares it to a server, and as a caller declares it with its request.

use crate::envelope::Known;
use crate::json::{self, Member};
use crate::message::Writer;
use crate::span::Span;
use crate::splice::RequestParts;

/// The part of a client's capabilities that is about questions a server may put to it. The default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ClientCapabilities {
    /// `elicitation.form`: a user can fill in a form.
    pub form: bool,
    /// `elicitation.url`: a user can be sent to an address.
    pub url: bool,
    /// `sampling`: a language model can be asked.
    pub sampling: bool,
    /// `sampling.tools`: and be given tools.
    pub sampling_tools: bool,
    /// `roots`: there is a list of roots.
    pub roots: bool,
    /// The extension `io.modelcontextprotocol/tasks`: a call may be answered with a task.
    pub tasks: bool,
}

/// The name of the extension for tasks.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether capabilities, of a client or of a server, name the extension for tasks.
#[must_use]
pub fn has_tasks(frame: &[u8], capabilities: Span) -> bool {
    let object = |parent: Span, name: &str| {
        json::member(frame, parent, name).filter(|span| json::is_object(span.of(frame)))
    };
    object(capabilities, "extensions").is_some_and(|all| object(all, TASKS).is_some())
}

impl ClientCapabilities {
    /// What a request declares in its `_meta`.
    #[must_use]
    pub fn of_request(frame: &[u8], parts: &RequestParts) -> Self {
        parts.value(Known::ClientCapabilities).map_or(Self::default(), |span| Self::read(frame, span))
    }

    /// Reads a capabilities object; what is not understood is not declared.
    #[must_use]
    pub fn read(frame: &[u8], capabilities: Span) -> Self {
        let mut read = Self::default();
        let objects =
            |parent| json::members(frame, parent).filter(|member| json::is_object(member.value.of(frame)));
        for Member { key, value } in objects(capabilities) {
            let is = |name| json::str_eq(key.of(frame), name);
            let has = |name| objects(value).any(|inner| json::str_eq(inner.key.of(frame), name));
            if is("elicitation") {
                // An empty object means forms alone, as it did before there were modes (client/elicitation,
                // Capabilities).
                read.form = has("form") || json::members(frame, value).next().is_none();
                read.url = has("url");
            } else if is("sampling") {
                read.sampling = true;
                read.sampling_tools = has("tools");
            } else if is("roots") {
                read.roots = true;
            } else if is("extensions") {
                read.tasks = has(TASKS);
            }
        }
        read
    }

    /// Writes the capabilities object.
    pub fn write(self, w: &mut Writer<'_>) {
        w.raw(b"{");
        let mut separator: &[u8] = b"";
        let mut put = |wanted: bool, bytes: &[u8]| {
            if wanted {
                w.raw(separator);
                w.raw(bytes);
                separator = b",";
            }
        };
        put(self.form && self.url, br#""elicitation":{"form":{},"url":{}}"#);
        put(self.form && !self.url, br#""elicitation":{"form":{}}"#);
        put(!self.form && self.url, br#""elicitation":{"url":{}}"#);
        put(self.sampling && self.sampling_tools, br#""sampling":{"tools":{}}"#);
        put(self.sampling && !self.sampling_tools, br#""sampling":{}"#);
        put(self.roots, br#""roots":{}"#);
        put(self.tasks, br#""extensions":{"io.modelcontextprotocol/tasks":{}}"#);
        w.raw(b"}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::scan;

    #[test]
    fn every_set_is_read_as_it_was_written() {
        for bits in 0..64_u8 {
            let bit = |n: u8| bits >> n & 1 == 1;
            let (form, url, sampling, roots) = (bit(0), bit(1), bit(2), bit(4));
            let sampling_tools = sampling && bit(3);
            let ours = ClientCapabilities { form, url, sampling, sampling_tools, roots, tasks: bit(5) };
            let mut buffer = [0; 192];
            let mut w = Writer::new(&mut buffer);
            ours.write(&mut w);
            let text = w.finish().unwrap();
            serde_json::from_slice::<serde_json::Value>(text).unwrap();
            assert_eq!(ClientCapabilities::read(text, scan(text).unwrap()), ours);
        }
    }

    #[test]
    fn an_empty_elicitation_means_forms_and_nonsense_means_nothing() {
        let read = |text: &str| ClientCapabilities::read(text.as_bytes(), scan(text.as_bytes()).unwrap());
        let form = ClientCapabilities { form: true, ..ClientCapabilities::default() };
        assert_eq!(read(r#"{"elicitation":{}}"#), form);
        assert_eq!(read(r#"{"\u0065licitation":{"form":{},"url":7},"tasks":{}}"#), form);
        for text in ["{}", "[]", "7", r#"{"elicitation":true,"sampling":[],"roots":null}"#] {
            assert_eq!(read(text), ClientCapabilities::default(), "{text}");
        }
    }
}
