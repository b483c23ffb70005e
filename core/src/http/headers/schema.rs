//! `x-mcp-header` in the schemas of tools: where it stands, whether it may, and what it names.

use core::fmt;

use heapless::Vec;
use memchr::memchr_iter;

use super::{PARAM_PREFIX, last_member, write_unescaped};
use crate::json::{self, Elements, Failed, Scanner, Step};
use crate::message::Writer;
use crate::span::Span;

/// The keyword.
const KEYWORD: &str = "x-mcp-header";

/// How deep in an argument the value of a header may lie, in properties of properties.
pub const MAX_PATH: usize = 16;

/// How many arguments of one tool may go into headers. The specification knows no limit, but servers take only so many
/// headers, commonly a hundred.
pub const MAX_ANNOTATIONS: usize = 64;

/// How many objects and arrays of a schema are followed inward. Deeper ones are searched all the same.
const MAX_LEVELS: usize = 64;

/// What is wrong with an `x-mcp-header`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Fault {
    /// It is not a string.
    NotText,
    /// It is empty.
    Empty,
    /// It is not a token, as the name of a header must be.
    NotToken,
    /// Another one in the schema has the same name, be it in other letter case.
    Repeated,
    /// It marks a parameter whose type is not `string`, `integer` or `boolean`.
    NotPrimitive,
    /// It stands where no chain of `properties` leads from the root of the schema.
    Unreachable,
    /// It lies more than [`MAX_PATH`] properties deep.
    TooDeep,
    /// There are more than [`MAX_ANNOTATIONS`].
    TooMany,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotText => "an x-mcp-header is not a string",
            Self::Empty => "an x-mcp-header is empty",
            Self::NotToken => "an x-mcp-header has characters that the name of a header cannot have",
            Self::Repeated => "two x-mcp-header are the same, but for letter case",
            Self::NotPrimitive => "an x-mcp-header marks a parameter that is no string, integer or boolean",
            Self::Unreachable => "an x-mcp-header stands where no chain of properties leads",
            Self::TooDeep => "an x-mcp-header marks a parameter that is nested too deeply",
            Self::TooMany => "too many x-mcp-header",
        })
    }
}

impl core::error::Error for Fault {}

/// A tool of a list, see [`tools`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tool {
    /// The tool, usually an object.
    pub span: Span,
    /// Why clients on HTTP must not offer it.
    pub fault: Option<Fault>,
}

/// Iterator over the tools of a list, see [`tools`].
#[derive(Clone, Debug)]
pub struct Tools<'a> {
    frame: &'a [u8],
    elements: Elements<'a>,
    /// Some tool may be marked.
    marked: bool,
}

/// The tools of the result of a `tools/list` in order, each [checked](check). A list in which nothing is marked is only
/// searched for the keyword.
#[must_use]
pub fn tools(frame: &[u8], result: Span) -> Tools<'_> {
    let list = last_member(frame, result, |key| json::str_eq(key, "tools")).unwrap_or_default();
    Tools { frame, elements: json::elements(frame, list), marked: may_be_marked(list.of(frame)) }
}

impl Iterator for Tools<'_> {
    type Item = Tool;

    fn next(&mut self) -> Option<Tool> {
        let span = self.elements.next()?;
        let fault = if self.marked { check(self.frame, span).err() } else { None };
        Some(Tool { span, fault })
    }
}

impl core::iter::FusedIterator for Tools<'_> {}

/// Whether all that is marked in the schema of `tool`, an object as `tools/list` gives it, is marked rightly.
///
/// # Errors
/// The first rule that is broken ("Schema Extension"). Clients on HTTP must leave such a tool out of the list.
pub fn check(frame: &[u8], tool: Span) -> Result<(), Fault> {
    if !may_be_marked(tool.of(frame)) {
        return Ok(());
    }
    let mut names = Vec::<Span, MAX_ANNOTATIONS>::new();
    let mut walk = Walk::new(frame, tool);
    while let Some(found) = walk.advance() {
        let annotation = found?;
        let name = annotation.header.of(frame);
        if names.iter().any(|other| same_name(other.of(frame), name)) {
            return Err(Fault::Repeated);
        }
        names.push(annotation.header).map_err(|_| Fault::TooMany)?;
    }
    Ok(())
}

/// Iterator over what is marked in a tool, see [`annotations`].
#[derive(Clone, Debug)]
pub struct Annotations<'a> {
    /// None if nothing is marked.
    walk: Option<Walk<'a>>,
}

/// The parameters of `tool` that go into headers, if it is one that [`check`] accepts. Of another one, some.
#[must_use]
pub fn annotations(frame: &[u8], tool: Span) -> Annotations<'_> {
    Annotations { walk: may_be_marked(tool.of(frame)).then(|| Walk::new(frame, tool)) }
}

impl Iterator for Annotations<'_> {
    type Item = Annotation;

    fn next(&mut self) -> Option<Annotation> {
        self.walk.as_mut()?.advance()?.ok()
    }
}

impl core::iter::FusedIterator for Annotations<'_> {}

/// A parameter that goes into a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    header: Span,
    path: Vec<Span, MAX_PATH>,
}

impl Annotation {
    /// The value of `x-mcp-header`: a JSON string with its quotes, in the frame with the tool.
    #[must_use]
    pub const fn header(&self) -> Span {
        self.header
    }

    /// The names of the properties on the way to the parameter, from the root of the arguments: JSON strings, in the
    /// frame with the tool.
    #[must_use]
    pub fn path(&self) -> &[Span] {
        &self.path
    }

    /// The value for the header in the `arguments` of a call, an object in `frame`; `tool_frame` is the one with the tool.
    /// `None` if there is no value or if it is null: then there must be no header.
    #[must_use]
    pub fn argument(&self, tool_frame: &[u8], frame: &[u8], arguments: Span) -> Option<Span> {
        let mut value = arguments;
        for name in &self.path {
            value = last_member(frame, value, |key| json::same_text(key, name.of(tool_frame)))?;
        }
        (value.of(frame) != b"null").then_some(value)
    }

    /// Writes the name of the header; `tool_frame` is the frame with the tool.
    pub fn write_name(&self, tool_frame: &[u8], w: &mut Writer<'_>) {
        w.raw(PARAM_PREFIX.as_bytes());
        write_unescaped(self.header.of(tool_frame), w);
    }
}

/// Whether the keyword can stand in `bytes` at all, if maybe not as a keyword. Each of its characters may be escaped.
fn may_be_marked(bytes: &[u8]) -> bool {
    let keyword = KEYWORD.as_bytes();
    memchr_iter(b'x', bytes).any(|at| bytes.get(at..).is_some_and(|rest| rest.starts_with(keyword)))
        || memchr_iter(b'\\', bytes).any(|at| match bytes.get(at..at.saturating_add(6)) {
            Some(&[_, b'u', b'0', b'0', high, low]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
                keyword.contains(&(digit(high) << 4 | digit(low)))
            }
            _ => false,
        })
}

/// Whether two names of headers are the same.
fn same_name(one: &[u8], other: &[u8]) -> bool {
    let lower = |raw| json::text(raw).map(|byte: u8| byte.to_ascii_lowercase());
    lower(one).eq(lower(other))
}

/// Whether a byte may stand in a token, a name of a header for instance (RFC 9110, section 5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// What an object or array of a schema is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The schema at the root, or one that a chain of `properties` leads to.
    Reachable,
    /// The `properties` of such a schema.
    Properties,
    /// Any other schema.
    Schema,
    /// Other schemas by name.
    Named,
    /// Other schemas in a list.
    List,
}

/// What a member of a schema says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Header,
    Type,
    Properties,
    /// Its value is a schema, or a list of schemas.
    Schemas,
    /// Its value are schemas by name.
    Named,
    /// Nothing that holds schemas. What is in there, such as in a default, is data.
    Other,
}

impl Keyword {
    /// As in JSON Schema 2020-12, and those of older drafts that it still reserves.
    fn of(key: &[u8]) -> Self {
        match json::unescape(key, &mut [0; 24]) {
            Some(KEYWORD) => Self::Header,
            Some("type") => Self::Type,
            Some("properties") => Self::Properties,
            Some("patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions") => {
                Self::Named
            }
            Some(
                "items"
                | "prefixItems"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "contentSchema"
                | "oneOf"
                | "anyOf"
                | "allOf"
                | "not"
                | "if"
                | "then"
                | "else",
            ) => Self::Schemas,
            _ => Self::Other,
        }
    }
}

/// A property on the way to where the walk stands.
#[derive(Clone, Copy, Debug, Default)]
struct Property {
    name: Span,
    /// Empty if it is not marked.
    header: Span,
    primitive: bool,
}

/// A walk over a schema that looks at each byte once, and stops at the first fault.
#[derive(Clone, Debug)]
struct Walk<'a> {
    frame: &'a [u8],
    scanner: Scanner<'a>,
    at: usize,
    /// The container at hand was only just entered.
    entered: bool,
    levels: Vec<Kind, MAX_LEVELS>,
    /// One for each [`Kind::Reachable`] among them but the root.
    path: Vec<Property, MAX_PATH>,
}

impl<'a> Walk<'a> {
    fn new(frame: &'a [u8], tool: Span) -> Self {
        let schema = last_member(frame, tool, |key| json::str_eq(key, "inputSchema")).unwrap_or_default();
        let inside = frame.get(..schema.end()).unwrap_or_default();
        let mut walk = Self {
            frame: inside,
            scanner: Scanner::new(inside),
            at: schema.start(),
            entered: false,
            levels: Vec::new(),
            path: Vec::new(),
        };
        if json::is_object(schema.of(frame)) {
            walk.enter(Kind::Reachable, schema.start());
        }
        walk
    }

    fn advance(&mut self) -> Option<Result<Annotation, Fault>> {
        while let Some(&kind) = self.levels.last() {
            match self.step(kind) {
                Ok(None) => {}
                Ok(Some(annotation)) => return Some(Ok(annotation)),
                Err(fault) => {
                    self.levels.clear();
                    // Not JSON: nothing more can be said.
                    return fault.map(Err);
                }
            }
        }
        None
    }

    fn step(&mut self, kind: Kind) -> Result<Option<Annotation>, Option<Fault>> {
        let (scanner, at) = (&mut self.scanner, self.at);
        let step = match (kind, core::mem::take(&mut self.entered)) {
            (Kind::List, true) => scanner.first_element(at),
            (Kind::List, false) => scanner.next_element(at),
            (_, true) => scanner.first_member(at),
            (_, false) => scanner.next_member(at),
        };
        match step.map_err(|Failed| None)? {
            Step::End(end) => {
                self.levels.pop();
                self.at = end;
                if kind == Kind::Reachable { self.leave() } else { Ok(None) }
            }
            Step::Item { key, value } => {
                self.member(kind, key, value)?;
                Ok(None)
            }
        }
    }

    /// A reachable schema is at its end.
    fn leave(&mut self) -> Result<Option<Annotation>, Option<Fault>> {
        let mut path = Vec::new();
        for property in &self.path {
            // As long as the one that is copied, so it fits. (To collect into it could panic.)
            let _ = path.push(property.name);
        }
        match self.path.pop() {
            Some(Property { header, .. }) if header.is_empty() => Ok(None),
            Some(Property { header, primitive: true, .. }) => Ok(Some(Annotation { header, path })),
            Some(_) => Err(Some(Fault::NotPrimitive)),
            None => Ok(None),
        }
    }

    fn member(&mut self, kind: Kind, key: Span, value: usize) -> Result<(), Option<Fault>> {
        let opening = self.frame.get(value);
        let (object, list) = (opening == Some(&b'{'), opening == Some(&b'['));
        let inside = match kind {
            Kind::Properties if object => {
                let property = Property { name: key, ..Property::default() };
                if self.path.push(property).is_err() {
                    return self.unfollowed(value, Fault::TooDeep);
                }
                Kind::Reachable
            }
            Kind::Named | Kind::List if object => Kind::Schema,
            Kind::Properties | Kind::Named | Kind::List => return self.skip(value).map(drop),
            Kind::Reachable | Kind::Schema => match Keyword::of(key.of(self.frame)) {
                Keyword::Header => {
                    // The root has no name, so no argument goes with it.
                    if kind == Kind::Schema || self.path.is_empty() {
                        return Err(Some(Fault::Unreachable));
                    }
                    return self.header(value);
                }
                Keyword::Type => {
                    let name = self.skip(value)?;
                    let raw = name.of(self.frame);
                    let primitive =
                        ["string", "integer", "boolean"].iter().any(|name| json::str_eq(raw, name));
                    if kind == Kind::Reachable
                        && let Some(property) = self.path.last_mut()
                    {
                        property.primitive = primitive;
                    }
                    return Ok(());
                }
                Keyword::Properties if object && kind == Kind::Reachable => Kind::Properties,
                Keyword::Properties | Keyword::Named if object => Kind::Named,
                Keyword::Schemas if object => Kind::Schema,
                Keyword::Schemas if list => Kind::List,
                _ => return self.skip(value).map(drop),
            },
        };
        // Not on the way to a reachable schema: the path would have been too long before.
        if self.levels.is_full() {
            return self.unfollowed(value, Fault::TooDeep);
        }
        self.enter(inside, value);
        Ok(())
    }

    /// The mark on a reachable property.
    fn header(&mut self, value: usize) -> Result<(), Option<Fault>> {
        let span = self.skip(value)?;
        let raw = span.of(self.frame);
        let Some(property) = self.path.last_mut() else { return Err(Some(Fault::Unreachable)) };
        let fault = if !json::is_string(raw) {
            Fault::NotText
        } else if raw.len() <= 2 {
            Fault::Empty
        } else if !json::text(raw).all(is_token) {
            Fault::NotToken
        } else if !property.header.is_empty() {
            Fault::Repeated
        } else {
            property.header = span;
            return Ok(());
        };
        Err(Some(fault))
    }

    /// Passes by what is nested too deeply to be followed. It must not be marked.
    fn unfollowed(&mut self, value: usize, fault: Fault) -> Result<(), Option<Fault>> {
        let span = self.skip(value)?;
        if may_be_marked(span.of(self.frame)) { Err(Some(fault)) } else { Ok(()) }
    }

    fn skip(&mut self, value: usize) -> Result<Span, Option<Fault>> {
        self.at = self.scanner.value(value).map_err(|Failed| None)?;
        Ok(Span::new(value, self.at))
    }

    fn enter(&mut self, kind: Kind, value: usize) {
        // There is room: it was looked for.
        let _ = self.levels.push(kind);
        self.at = value + 1;
        self.entered = true;
    }
}
