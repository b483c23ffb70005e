//! Where a reference within a schema leads: the resources in the document, their addresses and their anchors.
//!
//! Owns a walk over the document, made when the first reference needs it, and the looking up. It looks for addresses only
//! where schemas are, never in examples or constants, and it never leaves the document.

use std::collections::HashMap;
use std::ptr;

use serde_json::Value as Json;

use super::super::coerce::decoded;
use super::uri;

/// The most resources of a document, and the longest address that is looked at; what has more is not checked.
const RESOURCES: usize = 1000;
const ADDRESS: usize = 2048;

/// Which rules a schema follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Up to draft 4, where `$id` is `id`.
    Oldest,
    /// Drafts 6 and 7.
    Old,
    Draft2019,
    Draft2020,
}

impl Dialect {
    /// By what `$schema` says; `None`: it is a kind of its own.
    pub(super) fn of(schema: &Json) -> Option<Self> {
        let name = schema["$schema"].as_str().unwrap_or_default();
        let is = |drafts: &[&str]| drafts.iter().any(|draft| name.contains(draft));
        if !name.is_empty() && !name.contains("json-schema.org") {
            return None;
        }
        Some(if is(&["draft-03", "draft-04"]) {
            Self::Oldest
        } else if is(&["draft-06", "draft-07"]) {
            Self::Old
        } else if is(&["2019-09"]) {
            Self::Draft2019
        } else {
            Self::Draft2020
        })
    }

    /// Whether what stands beside a `$ref` does not count.
    pub(super) const fn ref_stands_alone(self) -> bool {
        matches!(self, Self::Oldest | Self::Old)
    }

    /// The address that a schema gives itself.
    pub(super) fn own_address(self, schema: &Json) -> Option<&str> {
        let keyword = if self == Self::Oldest { "id" } else { "$id" };
        let alone = self.ref_stands_alone() && schema.get("$ref").is_some_and(Json::is_string);
        // A mere fragment is an anchor of the drafts before 2019-09, and no other address.
        schema.get(keyword)?.as_str().filter(|id| !alone && !id.starts_with('#') && !id.is_empty())
    }
}

/// A schema, and the resource that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'s> {
    pub(super) schema: &'s Json,
    pub(super) resource: usize,
}

/// A schema with an address of its own: the document, and what is embedded in it.
#[derive(Debug)]
struct Resource<'s> {
    address: String,
    root: &'s Json,
    dialect: Option<Dialect>,
    /// `None`: it is there more than once.
    anchors: HashMap<&'s str, Option<&'s Json>>,
    dynamic: HashMap<&'s str, &'s Json>,
}

/// All addresses of one document. The document is resource 0.
#[derive(Debug)]
pub(super) struct Addresses<'s> {
    resources: Vec<Resource<'s>>,
    /// `None`: different schemas have it.
    by_address: HashMap<String, Option<usize>>,
    by_root: HashMap<*const Json, usize>,
}

/// Keywords whose value is a schema, a list of them, or has one for each name.
const SCHEMAS: [&str; 18] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "extends",
    "disallow",
];
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

impl<'s> Addresses<'s> {
    /// Reads the document; `None` if it has too many.
    pub(super) fn of(document: &'s Json, dialect: Dialect) -> Option<Self> {
        let mut all = Self { resources: Vec::new(), by_address: HashMap::new(), by_root: HashMap::new() };
        let id = if dialect == Dialect::Oldest { "id" } else { "$id" };
        let (address, _) = uri::split(document[id].as_str().unwrap_or_default());
        if address.len() <= ADDRESS {
            all.add(uri::resolve("", address), document, Some(dialect));
        } else {
            all.add(String::new(), document, Some(dialect));
        }
        let mut open = vec![Target { schema: document, resource: 0 }];
        while let Some(Target { schema, mut resource }) = open.pop() {
            let Json::Object(members) = schema else { continue };
            let dialect = all.resources.get(resource)?.dialect.unwrap_or(dialect);
            if !ptr::eq(schema, document)
                && let Some(id) = dialect.own_address(schema)
                && let (id, "") = uri::split(id)
                && id.len() <= ADDRESS
            {
                let address = uri::resolve(&all.resources.get(resource)?.address, id);
                let other = schema.get("$schema").is_some_and(Json::is_string);
                let dialect = if other { Dialect::of(schema) } else { all.resources.get(resource)?.dialect };
                if all.resources.len() >= RESOURCES || address.len() > ADDRESS {
                    return None;
                }
                resource = all.add(address, schema, dialect);
            }
            let here = all.resources.get_mut(resource)?;
            for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                let Some(name) = members.get(keyword).and_then(Json::as_str) else { continue };
                let name = match keyword {
                    "$anchor" | "$dynamicAnchor" => Some(name),
                    "id" if dialect != Dialect::Oldest => None,
                    // An anchor before 2019-09.
                    _ => name.strip_prefix('#').filter(|name| !name.is_empty() && !name.starts_with('/')),
                };
                let Some(name) = name else { continue };
                let unique = |known: &mut Option<&'s Json>| {
                    *known = known.filter(|known| ptr::eq(*known, schema));
                };
                here.anchors.entry(name).and_modify(unique).or_insert(Some(schema));
                if keyword == "$dynamicAnchor" {
                    here.dynamic.entry(name).or_insert(schema);
                }
            }
            for (keyword, value) in members {
                let inner = |schema: &'s Json| Target { schema, resource };
                match value {
                    Json::Object(named) if NAMED.contains(&keyword.as_str()) => {
                        open.extend(named.values().map(inner));
                    }
                    Json::Array(list) if SCHEMAS.contains(&keyword.as_str()) => {
                        open.extend(list.iter().map(inner));
                    }
                    Json::Object(_) if SCHEMAS.contains(&keyword.as_str()) => open.push(inner(value)),
                    _ => {}
                }
            }
        }
        Some(all)
    }

    fn add(&mut self, address: String, root: &'s Json, dialect: Option<Dialect>) -> usize {
        let index = self.resources.len();
        let known = self.by_address.get(&address).copied().flatten().and_then(|at| self.resources.get(at));
        // The same twice is no harm; two different ones leave open which is meant.
        let only =
            known.is_none_or(|known| known.root == root) && self.by_address.get(&address) != Some(&None);
        if known.is_none() || !only {
            self.by_address.insert(address.clone(), only.then_some(index));
        }
        self.by_root.insert(ptr::from_ref(root), index);
        let (anchors, dynamic) = (HashMap::new(), HashMap::new());
        self.resources.push(Resource { address, root, dialect, anchors, dynamic });
        index
    }

    /// The resource whose root this schema is.
    pub(super) fn starts(&self, schema: &Json) -> Option<usize> {
        self.by_root.get(&ptr::from_ref(schema)).copied()
    }

    /// The rules of a resource; `None`: they are not known.
    pub(super) fn dialect(&self, resource: usize) -> Option<Dialect> {
        self.resources.get(resource)?.dialect
    }

    /// What a reference in `resource` means, and the name of the dynamic anchor that it is by, if it is.
    pub(super) fn find<'r>(
        &self,
        resource: usize,
        reference: &'r str,
    ) -> Option<(Target<'s>, Option<&'r str>)> {
        let (address, fragment) = uri::split(reference);
        let resource = if address.is_empty() {
            resource
        } else {
            let base = &self.resources.get(resource)?.address;
            (*self.by_address.get(&uri::resolve(base, address))?)?
        };
        let within = self.resources.get(resource)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some((self.point(resource, fragment)?, None));
        }
        let schema = (*within.anchors.get(&*decoded(fragment))?)?;
        let dynamic = within.dynamic.get(fragment).is_some_and(|anchor| ptr::eq(*anchor, schema));
        Some((Target { schema, resource }, dynamic.then_some(fragment)))
    }

    /// The schema of a resource with this dynamic anchor.
    pub(super) fn dynamic(&self, resource: usize, name: &str) -> Option<Target<'s>> {
        let schema = self.resources.get(resource)?.dynamic.get(name)?;
        Some(Target { schema, resource })
    }

    /// What a JSON pointer leads to. It may lead into an embedded resource.
    fn point(&self, resource: usize, pointer: &str) -> Option<Target<'s>> {
        let mut at = Target { schema: self.resources.get(resource)?.root, resource };
        let pointer = decoded(pointer);
        for part in pointer.split('/').skip(1) {
            at.schema = at.schema.pointer(&format!("/{part}"))?;
            at.resource = self.starts(at.schema).unwrap_or(at.resource);
        }
        Some(at)
    }
}
