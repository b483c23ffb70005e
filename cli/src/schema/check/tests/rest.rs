//! `unevaluatedProperties` and `unevaluatedItems`: what nothing else has judged.

use super::*;

fn hold(schema: &Json, good: &[Json], bad: &[(Json, &str)]) {
    for value in good {
        assert_eq!(check(schema, &value.to_string()), Checked::Fits, "{schema} {value}");
    }
    for (value, problem) in bad {
        assert_eq!(wrong(schema, value), [*problem], "{schema} {value}");
    }
}

#[test]
fn members() {
    // What is next to it, and in whatever applies to the whole.
    let by = |keyword: &str, schema: Json| json!({"properties": {"name": true}, keyword: schema, "unevaluatedProperties": false});
    let more = || json!({"properties": {"more": {"type": "number"}}});
    for schema in [
        by("allOf", json!([more()])),
        by("anyOf", json!([true, more()])),
        by("oneOf", json!([false, more()])),
        by("if", more()),
        by("dependentSchemas", json!({"name": more()})),
        by("$defs", json!({}))
            .as_object()
            .map(|own| {
                let mut own = own.clone();
                own.insert("$ref".to_owned(), json!("#/$defs/m"));
                own.insert("$defs".to_owned(), json!({"m": more()}));
                Json::from(own)
            })
            .unwrap(),
    ] {
        hold(
            &schema,
            &[json!({}), json!({"name": 1}), json!({"name": 1, "more": 1}), json!([1]), json!("x")],
            &[
                (json!({"name": 1, "x": 1}), "there is no `x`"),
                (json!({"name": 1, "nmae": 1}), "there is no `nmae`; did you mean `name`?"),
            ],
        );
    }
    // A branch that does not fit has seen nothing.
    let branches = json!({"anyOf": [
        {"properties": {"kind": {"const": "a"}, "a": true}, "required": ["kind"]},
        {"properties": {"kind": {"const": "b"}, "b": true}, "required": ["kind"]},
    ], "unevaluatedProperties": false});
    hold(
        &branches,
        &[json!({"kind": "a", "a": 1}), json!({"kind": "b", "b": 1})],
        &[(json!({"kind": "a", "b": 1}), "there is no `b`")],
    );
    let conditional = json!({
        "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"properties": {"a": true}},
        "else": {"properties": {"b": true}}, "unevaluatedProperties": {"type": "null"},
    });
    hold(
        &conditional,
        &[json!({"kind": "a", "a": 1, "x": null}), json!({"b": 1})],
        &[
            (json!({"kind": "a", "b": 1}), "`b` is 1, but null is expected"),
            (json!({"kind": "b", "b": 1}), "`kind` is \"b\", but null is expected"),
        ],
    );
    // `not` sees nothing, a part sees nothing of the whole, and a schema nothing of those beside or around it.
    hold(
        &json!({"not": {"not": {"properties": {"a": true}}}, "unevaluatedProperties": false}),
        &[],
        &[(json!({"a": 1}), "there is no `a`")],
    );
    let beside = json!({"allOf": [{"properties": {"a": true}}, {"unevaluatedProperties": false}]});
    hold(&beside, &[json!({})], &[(json!({"a": 1}), "there is no `a`")]);
    let around = json!({"properties": {"a": true}, "allOf": [{"unevaluatedProperties": false}]});
    hold(&around, &[json!({})], &[(json!({"a": 1}), "there is no `a`")]);
    let inside = json!({"properties": {"a": {"properties": {"b": true}}}, "unevaluatedProperties": false});
    hold(&inside, &[json!({"a": {"b": 1, "c": 1}})], &[(json!({"zzz": 1}), "there is no `zzz`")]);
    // One that has judged all of them leaves nothing to the next.
    let twice = json!({"allOf": [{"unevaluatedProperties": true}], "unevaluatedProperties": false});
    hold(&twice, &[json!({"a": 1})], &[]);
    // Patterns and rules for the others count; those for names do not.
    let pattern = json!({"allOf": [{"patternProperties": {"^a": true}}], "unevaluatedProperties": false});
    hold(&pattern, &[json!({"ab": 1})], &[(json!({"b": 1}), "there is no `b`")]);
    let others =
        json!({"allOf": [{"additionalProperties": {"type": "number"}}], "unevaluatedProperties": false});
    hold(&others, &[json!({"a": 1})], &[(json!({"b": "x"}), "`b` is \"x\", but number is expected")]);
    let names = json!({"propertyNames": {"maxLength": 3}, "unevaluatedProperties": false});
    hold(&names, &[], &[(json!({"a": 1}), "there is no `a`")]);
}

#[test]
fn what_does_not_fit_is_told_and_not_its_consequences() {
    let schema = json!({
        "allOf": [{"properties": {"a": true, "b": {"type": "number"}}, "required": ["a"]}],
        "unevaluatedProperties": false,
    });
    hold(&schema, &[], &[(json!({"b": 1}), "`a` is missing"), (json!({"a": 1, "c": 1}), "there is no `c`")]);
    let schema = json!({"properties": {"a": {"type": "number"}}, "unevaluatedProperties": false});
    assert_eq!(
        wrong(&schema, &json!({"a": "x", "zzz": 1})),
        ["`a` is \"x\", but number is expected", "there is no `zzz`"]
    );
}

#[test]
fn items() {
    let place = "`[1]` is not allowed";
    for schema in [
        json!({"prefixItems": [true], "unevaluatedItems": false}),
        json!({"allOf": [{"prefixItems": [{"type": "number"}]}], "unevaluatedItems": false}),
        json!({"contains": {"type": "number"}, "unevaluatedItems": false}),
        json!({"anyOf": [{"items": {"type": "number"}}, {"prefixItems": [{"type": "number"}]}], "unevaluatedItems": false}),
    ] {
        hold(&schema, &[json!([1]), json!({"a": 1})], &[(json!([1, "x"]), place)]);
    }
    let rest =
        json!({"prefixItems": [true], "contains": {"const": 7}, "unevaluatedItems": {"type": "string"}});
    hold(
        &rest,
        &[json!([7]), json!([1, "x", 7])],
        &[(json!([1, 2, 7]), "`[1]` is 2, but string is expected")],
    );
    hold(&json!({"items": true, "unevaluatedItems": false}), &[json!([1, 2, 3])], &[]);
    // 2019-09 has it, too; there `contains` looks at nothing.
    let draft = "https://json-schema.org/draft/2019-09/schema";
    let older = json!({"$schema": draft, "items": [true], "unevaluatedItems": false});
    hold(&older, &[json!([1])], &[(json!([1, 2]), place)]);
    let older = json!({"$schema": draft, "contains": true, "unevaluatedItems": false});
    hold(&older, &[], &[(json!([1]), "`[0]` is not allowed")]);
}

#[test]
fn what_was_not_looked_at_may_have_seen_anything() {
    // (?=x) is a pattern that cannot be tried.
    let unsure = json!({
        "if": {"properties": {"a": {"pattern": "(?=x)"}}}, "then": {"properties": {"b": true}},
        "unevaluatedProperties": false,
    });
    assert_eq!(check(&unsure, r#"{"a":"y","c":1}"#), Checked::Fits);
    assert_eq!(check(&json!({"not": unsure}), r#"{"a":"y","c":1}"#), Checked::Fits);
}

#[test]
fn habits_of_servers_are_let_pass() {
    let with = json!({"properties": {"a": {"default": 1}, "b": {}}, "required": ["a", "b"]});
    assert_eq!(wrong(&with, &json!({})), ["`b` is missing"]);
    assert_eq!(check(&with, r#"{"b":1}"#), Checked::Fits);
    assert_eq!(
        check(&json!({"not": {"properties": {"a": {"default": 1}}, "required": ["a"]}}), "{}"),
        Checked::Fits
    );
    for schema in [
        json!({"type": "string", "nullable": true}),
        json!({"enum": ["a"], "nullable": true}),
        json!({"type": "string", "default": null}),
        json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}, "nullable": true}),
    ] {
        assert_eq!(check(&schema, "null"), Checked::Fits, "{schema}");
        assert_eq!(wrong(&schema, &json!(1)).len(), 1, "{schema}");
    }
    assert_eq!(wrong(&json!({"type": "string", "nullable": false}), &json!(null)).len(), 1);
    let listed = json!({"type": "integer", "enum": ["1", "2"]});
    assert_eq!(check(&listed, "1"), Checked::Fits);
    assert_eq!(wrong(&listed, &json!("x")), ["it is \"x\", but integer is expected"]);
    // Servers that look at formats tell these apart.
    let either =
        json!({"oneOf": [{"type": "string", "format": "uri"}, {"type": "string", "format": "email"}]});
    assert_eq!(check(&either, r#""a@example.com""#), Checked::Fits);
    assert_eq!(wrong(&either, &json!(1)), ["it is 1, but string is expected"]);
    assert_eq!(check(&json!({"type": "string", "not": {"format": "email"}}), r#""x""#), Checked::Fits);
}

#[test]
fn formats_are_annotations() {
    for format in ["date", "email", "uri", "ipv4", "uuid", "regex", "strange"] {
        assert_eq!(check(&json!({"format": format}), r#""...""#), Checked::Fits, "{format}");
    }
}

#[test]
fn numbers_to_the_last_digit() {
    let large = 9_007_199_254_740_993_u64;
    hold(
        &json!({"maximum": large - 1}),
        &[json!(large - 1)],
        &[(json!(large), "it is 9007199254740993, but at most 9007199254740992 is expected")],
    );
    hold(
        &json!({"const": large}),
        &[json!(large)],
        &[(json!(large - 1), "it is 9007199254740992, but 9007199254740993 is expected")],
    );
    assert_eq!(check(&json!({"uniqueItems": true}), &json!([large, large - 1]).to_string()), Checked::Fits);
    hold(
        &json!({"multipleOf": 10}),
        &[json!(u64::MAX - 5), json!(-10), json!(1e300)],
        &[(json!(u64::MAX), "it is 18446744073709551615, which is no multiple of 10")],
    );
}
