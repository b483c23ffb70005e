//! Schemas good, odd and hostile.

mod any;
mod places;
mod rest;

use std::net::TcpListener;

use serde_json::json;

use super::*;

fn wrong(schema: &Json, value: &Json) -> Vec<String> {
    match check(schema, &value.to_string()) {
        Checked::Wrong(problems) => problems,
        other => panic!("{schema}: {other:?}"),
    }
}

#[test]
fn problems_name_their_place_and_what_is_expected() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1}, "e": {"enum": ["a", 2]},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "t": {"type": ["string", "null"]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "date": {"type": "string", "pattern": "^[0-9]+$"}, "c": {"const": 1},
        },
        "$defs": {"item": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
        "required": ["n"], "additionalProperties": false,
    });
    for (value, problem) in [
        (json!({}), "`n` is missing"),
        (json!({"n": "x"}), "`n` is \"x\", but integer is expected"),
        (json!({"n": 1, "e": 3}), "`e` is 3, but \"a\" or 2 is expected"),
        (json!({"n": 1, "maybe": "x"}), "`maybe` is \"x\", but integer or null is expected"),
        (json!({"n": 1, "t": 1}), "`t` is 1, but null or string is expected"),
        (json!({"n": 1, "c": 2}), "`c` is 2, but 1 is expected"),
        (json!({"n": 1, "list": [{"id": "a"}, {"id": 7}]}), "`list[1].id` is 7, but string is expected"),
        (json!({"n": 1, "list": [{}]}), "`list[0].id` is missing"),
        (json!({"n": 1, "dat": 1}), "there is no `dat`; did you mean `date`?"),
        (json!({"n": 1, "zzz": 1}), "there is no `zzz`"),
        (json!([]), "it is [], but object is expected"),
    ] {
        assert_eq!(wrong(&schema, &value), [problem], "{value}");
    }
    assert_eq!(wrong(&schema, &json!({"n": 0})), ["`n` is 0, but at least 1 is expected"]);
    assert_eq!(wrong(&schema, &json!({"a": 1, "b": 1, "list": 5, "e": 0})).len(), 5);
    assert_eq!(check(&schema, r#"{"n":1,"list":[],"t":null}"#), Checked::Fits);
}

#[test]
fn older_drafts_by_their_name() {
    let old = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}},
        "properties": {"p": {"items": [{"$ref": "#/definitions/a"}]}},
    });
    assert_eq!(wrong(&old, &json!({"p": [1]})), ["`p[0]` is 1, but string is expected"]);
    let new = json!({"properties": {"p": {"prefixItems": [{"type": "string"}], "items": false}}});
    assert_eq!(wrong(&new, &json!({"p": [1]})), ["`p[0]` is 1, but string is expected"]);
}

#[test]
fn other_keywords() {
    for (schema, good, bad, problem) in [
        (
            json!({"minLength": 2}),
            json!("äö"),
            json!("ä"),
            "it is too short, at least 2 characters are expected",
        ),
        (
            json!({"maxLength": 1}),
            json!("ä"),
            json!("äö"),
            "it is too long, at most 1 characters are expected",
        ),
        (json!({"pattern": "^a"}), json!("ab"), json!("ba"), "it is \"ba\", which does not match ^a"),
        (json!({"exclusiveMaximum": 3}), json!(2.5), json!(3), "it is 3, but less than 3 is expected"),
        (
            json!({"maximum": 3, "exclusiveMaximum": true}),
            json!(2),
            json!(3),
            "it is 3, but less than 3 is expected",
        ),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35), "it is 0.35, which is no multiple of 0.1"),
        (json!({"uniqueItems": true}), json!([1, 2]), json!([1, 1.0]), "it has 1.0 twice"),
        (json!({"minItems": 1}), json!([1]), json!([]), "it has 0 items, which is too few: minItems is 1"),
        (
            json!({"maxProperties": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
            "it has 2 members, but maxProperties is 1",
        ),
        (json!({"not": {"type": "null"}}), json!(1), json!(null), "it is not allowed"),
        (json!({"properties": {"a": false}}), json!({}), json!({"a": 1}), "`a` is not allowed"),
        (
            json!({"oneOf": [{}, {"type": "null"}]}),
            json!(1),
            json!(null),
            "it fits more than one of the alternatives",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({}),
            json!({"a": 1}),
            "`b` is missing",
        ),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({}), json!({"a": 1}), "`b` is missing"),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"a": 1}),
            json!({"ab": 1}),
            "`ab` is too long, at most 1 characters are expected",
        ),
        (
            json!({"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": false}),
            json!({"ab": null}),
            json!({"b": null}),
            "there is no `b`",
        ),
        (
            json!({"contains": {"type": "null"}, "maxContains": 1}),
            json!([null]),
            json!([null, null]),
            "it has 2 items of a kind of which there must be others",
        ),
    ] {
        assert_eq!(check(&schema, &good.to_string()), Checked::Fits, "{schema} {good}");
        assert_eq!(wrong(&schema, &bad), [problem], "{schema}");
    }
}

#[test]
fn the_alternative_that_was_meant() {
    let schema = json!({"oneOf": [
        {"type": "string"},
        {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["n"]},
    ]});
    assert_eq!(wrong(&schema, &json!({"kind": "a", "n": "x"})), ["`n` is \"x\", but integer is expected"]);
    let tagged = |tag: &str, more: Json| json!({"properties": {"kind": {"const": tag}, "n": more}, "required": ["kind"]});
    let pets = json!({"properties": {"pet": {"oneOf": [
        tagged("cat", json!({"type": "integer"})), tagged("dog", json!({"type": "boolean"})), {"type": "null"},
    ]}}});
    for (pet, problem) in [
        (json!({"kind": "cat", "n": "x"}), "`pet.n` is \"x\", but integer is expected"),
        (json!({"kind": "dog", "n": 1}), "`pet.n` is 1, but boolean is expected"),
        (json!({"kind": "cow"}), "`pet.kind` is \"cow\", but \"cat\" or \"dog\" is expected"),
        (json!({"kind": 7, "n": 1}), "`pet.kind` is 7, but \"cat\" or \"dog\" is expected"),
        (json!({}), "`pet` fits none of the alternatives"),
    ] {
        assert_eq!(wrong(&pets, &json!({"pet": pet})), [problem], "{pet}");
    }
    let other =
        json!({"oneOf": [{"properties": {"a": {"const": "x"}}}, {"properties": {"b": {"const": "y"}}}]});
    assert_eq!(wrong(&other, &json!({"a": "", "b": ""})), ["it fits none of the alternatives"]);
    let both = json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(wrong(&both, &json!({})), ["it fits none of the alternatives"]);
}

#[test]
fn a_schema_that_cannot_be_used_is_no_obstacle() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema.json", port.local_addr().unwrap());
    for (schema, why) in [
        (json!({"$ref": url}), url.as_str()),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "file:///etc/passwd"),
        (json!({"properties": {"a": {"$ref": "#anchor"}}}), "#anchor"),
        (json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), "#/$defs/none"),
        (json!({"properties": {"a": {"$id": "https://example.com/", "$ref": "b"}}}), "refers to b"),
        (json!({"$dynamicRef": "#x"}), "#x"),
        (json!({"$recursiveRef": "#"}), "refers to \"#\""),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "$dynamicRef": "#"}), "refers to #"),
        (json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}), "draft/2020-12/schema"),
        (json!({"$schema": url}), "a kind of its own"),
        (json!({"properties": {"a": {"$id": "b", "$schema": url}}}), "a kind of its own"),
        // Two of one name, and a part that nobody would look for a schema in.
        (json!({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}), "#x"),
        (
            json!({"$ref": "x", "$defs": {"a": {"$id": "x"}, "b": {"$id": "x", "type": "null"}}}),
            "refers to x",
        ),
        (json!({"$ref": "x", "default": {"$id": "x"}, "$defs": {"$id": "x"}}), "refers to x"),
        (json!({"$ref": "#/default", "default": {"$id": "x"}}), "refers to x"),
    ] {
        match check(&schema, r#"{"a":1}"#) {
            Checked::Not(said) => assert!(said.contains(why), "{said}"),
            other => panic!("{schema}: {other:?}"),
        }
    }
    // What is not looked at is no reason against its opposite either.
    for (unsure, value) in [
        (json!({"pattern": "(?=x)"}), json!("y")),
        (json!({"not": {"not": {"pattern": "(?=x)"}}}), json!("y")),
    ] {
        for (schema, value) in [
            (json!({"not": unsure}), &value),
            (json!({"oneOf": [unsure, {}]}), &value),
            (json!({"if": unsure, "then": false}), &value),
            (json!({"contains": unsure, "maxContains": 0, "minContains": 0}), &json!([value])),
        ] {
            assert_eq!(check(&schema, &value.to_string()), Checked::Fits, "{schema} {value}");
        }
    }
    // A word of later drafts.
    let old =
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "not": {"unevaluatedItems": false}});
    assert_eq!(check(&old, "[1]"), Checked::Fits);
    // Malformed, unknown, or for somebody else.
    for schema in [
        json!({"$id": url, "x": {"$ref": url}, "default": {"$ref": url}}),
        json!({"properties": {"a": {"type": "strange", "required": true, "enum": 3, "items": 7}}}),
        json!({"properties": {"a": {"pattern": "(("}}, "allOf": 3, "anyOf": [], "minLength": "x"}),
        json!({"properties": {"b": {"$ref": url}}}),
        json!(true),
        json!(7),
    ] {
        assert_eq!(check(&schema, r#"{"a":"x"}"#), Checked::Fits, "{schema}");
    }
    assert!(port.accept().is_err(), "nobody may have connected");
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert!(matches!(check(&json!({}), &deep), Checked::Not(_)));
}

#[test]
fn a_schema_that_takes_too_long_is_given_up() {
    let to = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
    let definitions = |of: &dyn Fn(usize) -> Json, n: usize| -> Json {
        let all: Map<_, _> = (0..n).map(|i| (format!("d{i}"), of(i))).collect();
        json!({"$defs": all, "$ref": "#/$defs/d0"})
    };
    let wide = |n| if n < 39 { json!({"allOf": [to(n + 1), to(n + 1)]}) } else { json!({}) };
    let chain = |n| if n < 9999 { to(n + 1) } else { json!({}) };
    let branching = json!({"additionalProperties": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}});
    let pattern = json!({"additionalProperties": {"allOf": vec![json!({"pattern": "(a*)*(a*)*b"}); 500]}});
    let nest = (0..40).fold(json!("a".repeat(4000)), |inner, _| json!({"a": inner}));
    let flat = json!({"a": "a".repeat(4000)});
    let long = Json::from((0..300_000).map(Json::from).collect::<Vec<_>>());
    for (schema, value) in [
        (json!({"$ref": "#"}), &nest),
        (definitions(&wide, 40), &nest),
        (definitions(&chain, 10_000), &nest),
        (branching, &nest),
        (pattern, &flat),
        (json!({"uniqueItems": true}), &long),
    ] {
        let checked = check(&schema, &value.to_string());
        assert_eq!(checked, Checked::Not("it is too complex".to_owned()), "{schema:.80}");
    }
}

#[test]
fn the_deepest_check_has_room() {
    // As deep as a value can be read, in a schema that goes along.
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    assert_eq!(
        check(&json!({"items": {"anyOf": [{"$ref": "#"}]}}), &deep),
        Checked::Not("it is too complex".into())
    );
    assert_eq!(check(&json!({"items": {"$ref": "#"}}), &deep), Checked::Fits);
    let step = |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}]});
    let mut steps: Map<_, _> = (0..140).map(|n| (format!("d{n}"), step(n))).collect();
    steps.insert("d140".to_owned(), json!({"type": "object"}));
    let chain = json!({"$defs": steps, "$ref": "#/$defs/d0"});
    assert_eq!(wrong(&chain, &json!(1)), ["it is 1, but object is expected"]);
}
