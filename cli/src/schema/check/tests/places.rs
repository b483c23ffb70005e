//! References within one document: addresses, anchors, and what is meant by the way that led there.

use super::*;

/// Each schema with a value that fits and one that does not.
fn hold(table: &[(Json, Json, Json)]) {
    for (schema, good, bad) in table {
        assert_eq!(check(schema, &good.to_string()), Checked::Fits, "{schema} {good}");
        assert!(!wrong(schema, bad).is_empty(), "{schema} {bad}");
    }
}

#[test]
fn anchors_and_embedded_resources() {
    let number = || json!({"type": "number"});
    hold(&[
        (json!({"$ref": "#n", "$defs": {"a": {"$anchor": "n", "type": "number"}}}), json!(1), json!("x")),
        (
            json!({"$dynamicRef": "#n", "$defs": {"a": {"$anchor": "n", "type": "number"}}}),
            json!(1),
            json!("x"),
        ),
        (
            json!({"$ref": "#n", "$defs": {"a": {"$dynamicAnchor": "n", "type": "number"}}}),
            json!(1),
            json!("x"),
        ),
        // By its address, by a relative one, and by one that goes through it.
        (
            json!({
                "$id": "https://e.example/s/root", "$ref": "https://e.example/s/n",
                "$defs": {"a": {"$id": "n", "type": "number"}},
            }),
            json!(1),
            json!("x"),
        ),
        (json!({"$ref": "n", "$defs": {"a": {"$id": "n", "type": "number"}}}), json!(1), json!("x")),
        (
            json!({"$ref": "urn:x:n", "$defs": {"a": {"$id": "urn:x:n", "type": "number"}}}),
            json!(1),
            json!("x"),
        ),
        (
            json!({"$ref": "n#/$defs/b", "$defs": {"a": {"$id": "n", "$defs": {"b": number()}}}}),
            json!(1),
            json!("x"),
        ),
        (
            json!({"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "n", "$defs": {"b": number()}}}}),
            json!(1),
            json!("x"),
        ),
        // A reference is about the resource that it stands in, however one came there.
        (
            json!({
                "$defs": {"t": {"type": "string"}, "a": {
                    "$id": "n", "$defs": {"t": number()}, "properties": {"p": {"$ref": "#/$defs/t"}},
                }},
                "$ref": "#/$defs/a/properties/p",
            }),
            json!(1),
            json!("x"),
        ),
        (
            json!({
                "$id": "http://e.example/a/b", "properties": {"p": {"$id": "../c/d", "$ref": "e"}},
                "$defs": {"e": {"$id": "/c/e", "type": "number"}, "f": {"$id": "e", "type": "string"}},
            }),
            json!({"p": 1}),
            json!({"p": "x"}),
        ),
        // The same name in two resources is no trouble.
        (
            json!({
                "$ref": "n#x",
                "$defs": {"a": {"$anchor": "x", "type": "string"}, "b": {"$id": "n", "$anchor": "x", "type": "number"}},
            }),
            json!(1),
            json!("x"),
        ),
        // And the same resource twice is one.
        (
            json!({"$ref": "n", "$defs": {"a": {"$id": "n", "type": "number"}, "b": {"$id": "n", "type": "number"}}}),
            json!(1),
            json!("x"),
        ),
        // The document itself, by its name.
        (
            json!({"$id": "tree", "properties": {"p": {"$ref": "tree"}}, "type": "object"}),
            json!({"p": {"p": {}}}),
            json!({"p": {"p": 1}}),
        ),
        // An address is none in an example, and none that is a property's name.
        (
            json!({
                "properties": {"$id": {"type": "string"}, "p": {"$ref": "#/$defs/n"}},
                "examples": [{"$id": "x"}], "$defs": {"n": number()},
            }),
            json!({"$id": "x", "p": 1}),
            json!({"$id": "x", "p": "x"}),
        ),
        // What generators wrote before there were anchors.
        (
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#n",
                "definitions": {"n": {"$id": "#n", "type": "number"}},
            }),
            json!(1),
            json!("x"),
        ),
        (
            json!({"properties": {"p": {"$id": "#/properties/p", "type": "number"}}}),
            json!({"p": 1}),
            json!({"p": "x"}),
        ),
        // A part that follows an older draft.
        (
            json!({
                "$ref": "old", "$defs": {"n": {
                    "$id": "old", "$schema": "http://json-schema.org/draft-07/schema#",
                    "properties": {"p": {"$ref": "#/definitions/n", "maximum": 1}}, "definitions": {"n": number()},
                }},
            }),
            json!({"p": 2}),
            json!({"p": "x"}),
        ),
    ]);
}

#[test]
fn a_dynamic_reference_means_the_outermost_of_its_name() {
    // A list that leaves open of what, and somebody who says it.
    let list = || {
        json!({
            "$id": "list", "type": "array", "items": {"$dynamicRef": "#item"},
            "$defs": {"any": {"$dynamicAnchor": "item"}},
        })
    };
    let numbers = json!({
        "$id": "numbers", "$ref": "list", "$defs": {"n": {"$dynamicAnchor": "item", "type": "number"}},
    });
    let mut texts = numbers.clone();
    texts["$id"] = json!("texts");
    texts["$defs"]["n"]["type"] = json!("string");
    let either = json!({
        "$defs": {"list": list(), "numbers": numbers, "texts": texts},
        "properties": {"n": {"$ref": "numbers"}, "t": {"$ref": "texts"}, "any": {"$ref": "list"}},
    });
    hold(&[
        (either.clone(), json!({"n": [1], "t": ["x"], "any": [1, "x"]}), json!({"n": ["x"]})),
        (either, json!({"t": []}), json!({"t": ["x", 1]})),
    ]);
    assert_eq!(
        check(
            &json!({"$ref": "list", "$defs": {"l": list(), "n": {"$anchor": "item", "type": "null"}}}),
            "[1]"
        ),
        Checked::Fits,
        "a plain anchor is not looked for"
    );
    // Without one where it starts, it is a plain reference.
    let mut plain = list();
    plain["$defs"]["any"] = json!({"$anchor": "item"});
    let over =
        json!({"$ref": "list", "$defs": {"l": plain, "n": {"$dynamicAnchor": "item", "type": "null"}}});
    assert_eq!(check(&over, "[1]"), Checked::Fits);
    // So is one with a pointer.
    let mut pointed = list();
    pointed["items"] = json!({"$dynamicRef": "#/$defs/any"});
    let over =
        json!({"$ref": "list", "$defs": {"l": pointed, "n": {"$dynamicAnchor": "item", "type": "null"}}});
    assert_eq!(check(&over, "[1]"), Checked::Fits);
    // A tree that is stricter as a whole.
    let tree = json!({
        "$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "tree", "$dynamicAnchor": "node",
            "properties": {"data": true, "children": {"items": {"$dynamicRef": "#node"}}},
        }},
    });
    hold(&[(
        tree.clone(),
        json!({"children": [{"data": 1, "children": [{}]}]}),
        json!({"children": [{"children": [{"daat": 1}]}]}),
    )]);
    assert_eq!(wrong(&tree, &json!({"children": [{"daat": 1}]})), ["there is no `children[0].daat`"]);
}

#[test]
fn documents_with_very_many_or_very_long_addresses_are_given_up() {
    let complex = || Checked::Not("it is too complex".to_owned());
    let many: Map<_, _> = (0..2000).map(|n| (n.to_string(), json!({"$id": format!("r{n}")}))).collect();
    assert_eq!(check(&json!({"$ref": "r1", "$defs": many}), "1"), complex());
    // Each adds to the one before.
    let long = (0..60).fold(
        json!({"$id": "end"}),
        |inner, _| json!({"$id": format!("{}/", "a".repeat(100)), "not": inner}),
    );
    assert_eq!(check(&json!({"$ref": "#", "not": long}), "1"), complex());
    let id = "a".repeat(100_000);
    let schema = json!({"$id": id, "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}, "b": {"$id": id}}});
    assert_eq!(check(&schema, "null"), Checked::Fits);
}
