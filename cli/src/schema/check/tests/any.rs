//! Whatever a schema is: an answer, after a bounded number of steps.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// A value small enough to say yes or no to.
fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-3i64..4).prop_map(Json::from),
        prop_oneof![Just(0.5), Just(1e300), Just(-0.0)].prop_map(|number| json!(number)),
        "[a-c]{0,2}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// A schema with every keyword in every place, right or not.
fn schema() -> impl Strategy<Value = Json> {
    const WORDS: [&str; 40] = [
        "$ref",
        "$dynamicRef",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$schema",
        "$defs",
        "type",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "required",
        "prefixItems",
        "items",
        "additionalItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "multipleOf",
        "minimum",
        "maxLength",
        "minItems",
        "maxProperties",
        "pattern",
    ];
    let text = prop_oneof![
        Just("#"),
        Just("#a"),
        Just("b"),
        Just("b#a"),
        Just("#/$defs/a"),
        Just("#/allOf/0"),
        Just("../a"),
        Just("a"),
        Just("urn:b"),
        Just("string"),
        Just("object"),
        Just("array"),
        Just("^a"),
        Just("(("),
        Just("//b/c?d"),
        Just("#%"),
        Just("https://json-schema.org/draft/2019-09/schema"),
        Just("http://json-schema.org/draft-07/schema"),
    ];
    let leaf = prop_oneof![
        3 => any::<bool>().prop_map(Json::from),
        3 => text.prop_map(Json::from),
        1 => (-1i64..4).prop_map(Json::from),
        1 => Just(json!(null)),
    ];
    leaf.prop_recursive(6, 120, 6, |inner| {
        let word = || prop::sample::select(&WORDS[..]);
        let named = prop_oneof![Just("a"), Just("b"), Just("^a")];
        prop_oneof![
            4 => prop::collection::vec((word(), inner.clone()), 0..6)
                .prop_map(|members| Json::Object(members.into_iter().map(|(key, to)| (key.to_owned(), to)).collect())),
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            1 => prop::collection::vec((named, inner), 0..3)
                .prop_map(|members| Json::Object(members.into_iter().map(|(key, to)| (key.to_owned(), to)).collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_is_an_answer_and_it_is_the_same_again(schema in schema(), value in value()) {
        let (fuel, start) = (Cell::new(FUEL), Instant::now());
        let checked = judge(&schema, &value, &fuel);
        prop_assert!(start.elapsed() < Duration::from_secs(20), "{schema}");
        prop_assert_eq!(&judge(&schema, &value, &Cell::new(FUEL)), &checked);
        // What it took is enough, and less is no answer, but never another one.
        let took = FUEL - fuel.get();
        prop_assert_eq!(&judge(&schema, &value, &Cell::new(took)), &checked);
        if took > 0 && !matches!(checked, Checked::Not(_)) {
            prop_assert_eq!(judge(&schema, &value, &Cell::new(took - 1)), Checked::Not("it is too complex".to_owned()));
        }
    }

    /// What may be said in two ways is judged in one.
    #[test]
    fn a_schema_and_the_opposite_of_its_opposite(schema in schema(), value in value()) {
        // References are about places that are others in the longer schema.
        let text = schema.to_string();
        prop_assume!(!text.contains("$ref") && !text.contains("$dyn") && !text.contains("$id"));
        prop_assume!(!text.contains("$schema") && !text.contains("((") && schema.is_object());
        let plain = matches!(judge(&schema, &value, &Cell::new(FUEL)), Checked::Fits);
        for twice in [json!({"not": {"not": schema}}), json!({"oneOf": [schema, false]}), json!({"allOf": [schema]})] {
            prop_assert_eq!(matches!(judge(&twice, &value, &Cell::new(FUEL)), Checked::Fits), plain, "{}", twice);
        }
    }
}

#[test]
fn what_is_left_over_costs_no_more_than_what_is_looked_at() {
    // Each level asks what the two below it have seen; all of them look at one large value.
    let nested = (0..40).fold(
        json!({"properties": {"a": true}}),
        |inner, _| json!({"anyOf": [inner, {"properties": {"b": true}}], "unevaluatedProperties": true}),
    );
    let large = Json::Object((0..20_000).map(|n| (n.to_string(), json!(n))).collect());
    let fuel = Cell::new(FUEL);
    judge(&nested, &large, &fuel);
    // And one that doubles at each level ends.
    let both = |n: usize| json!({"$ref": format!("#/$defs/d{}", n + 1), "unevaluatedItems": true});
    let mut all: Map<_, _> =
        (0..40).map(|n| (format!("d{n}"), json!({"anyOf": [both(n), both(n)]}))).collect();
    all.insert("d40".to_owned(), json!({"items": true}));
    let doubling = json!({"$defs": all, "$ref": "#/$defs/d0", "unevaluatedItems": false});
    let (fuel, start) = (Cell::new(FUEL), Instant::now());
    let checked = judge(&doubling, &json!([1, 2, 3]), &fuel);
    assert_eq!(checked, Checked::Not("it is too complex".to_owned()));
    assert!(start.elapsed() < Duration::from_secs(20));
    // Large constants are compared over and over.
    let constant = Json::from((0..100_000).collect::<Vec<_>>());
    let again = json!({"allOf": (0..100).map(|_| json!({"$ref": "#/$defs/c"})).collect::<Vec<_>>(), "$defs": {"c": {"const": constant}}});
    assert_eq!(judge(&again, &constant, &Cell::new(FUEL)), Checked::Not("it is too complex".to_owned()));
    let mut kinds = vec!["null"; 10_000];
    kinds.push("number");
    let kinds = json!({"items": {"type": kinds}});
    assert_eq!(judge(&kinds, &constant, &Cell::new(FUEL)), Checked::Not("it is too complex".to_owned()));
}
