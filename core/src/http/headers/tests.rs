#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value, json};

use super::{
    Fault, MAX_ANNOTATIONS, MAX_PATH, Unfit, annotations, check, is_plain, name, tools, write_value,
};
use crate::envelope;
use crate::json::{self, same_text};
use crate::message::Writer;
use crate::method::Method;
use crate::span::Span;
use crate::splice::RequestParts;

fn whole(bytes: &[u8]) -> Span {
    json::scan(bytes).unwrap()
}

fn written(raw: &str) -> Result<String, Unfit> {
    let mut buffer = [0; 4096];
    let mut w = Writer::new(&mut buffer);
    let outcome = write_value(raw.as_bytes(), &mut w);
    let bytes = w.finish().unwrap();
    assert!(outcome.is_ok() || bytes.is_empty());
    outcome.map(|()| String::from_utf8(bytes.to_vec()).unwrap())
}

/// What the header says for a text.
fn text(value: &str) -> String {
    let raw = serde_json::to_string(value).unwrap();
    let header = written(&raw).unwrap();
    assert_eq!(is_plain(raw.as_bytes()), header == value);
    // The same if each character is escaped.
    let escaped: String = value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    assert_eq!(written(&format!("\"{escaped}\"")).unwrap(), header);
    header
}

/// Whether a client must leave a tool with this schema out.
fn fault(schema: &Value) -> Option<Fault> {
    let tool = json!({"name": "t", "inputSchema": schema}).to_string();
    let bytes = tool.as_bytes();
    let fault = check(bytes, whole(bytes)).err();
    // In a list it says the same, and says it of this one only.
    let list = format!(r#"{{"tools":[{{"name":"a"}},{tool},{{"name":"b"}}],"ttlMs":0}}"#);
    let found: Vec<_> = tools(list.as_bytes(), whole(list.as_bytes())).map(|tool| tool.fault).collect();
    assert_eq!(found, [None, fault, None]);
    fault
}

/// The headers of a call.
fn headers(tool: &str, arguments: &str) -> Vec<(String, String)> {
    let (tool, arguments) = (tool.as_bytes(), arguments.as_bytes());
    assert_eq!(check(tool, whole(tool)), Ok(()));
    let mut headers = Vec::new();
    for annotation in annotations(tool, whole(tool)) {
        let Some(value) = annotation.argument(tool, arguments, whole(arguments)) else { continue };
        let mut buffer = [0; 100];
        let mut w = Writer::new(&mut buffer);
        annotation.write_name(tool, &mut w);
        let name = String::from_utf8(w.finish().unwrap().to_vec()).unwrap();
        headers.push((name, written(core::str::from_utf8(value.of(arguments)).unwrap()).unwrap()));
    }
    headers
}

fn with(properties: &Value) -> String {
    json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}}).to_string()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn values_as_the_specification_shows_them() {
    assert_eq!(text("us-west1"), "us-west1");
    assert_eq!(text("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
    assert_eq!(text(" padded "), "=?base64?IHBhZGRlZCA=?=");
    assert_eq!(text("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
    assert_eq!(text("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    assert_eq!(written("42").unwrap(), "42");
    assert_eq!(written("-7").unwrap(), "-7");
    assert_eq!(written("true").unwrap(), "true");
    assert_eq!(written("false").unwrap(), "false");
}

#[test]
fn text_is_plain_if_it_arrives_as_it_is() {
    for plain in [
        "",
        "a",
        "us west 1",
        "a\"b\\c",
        "~!",
        "=?base64?",
        "?=",
        "x=?base64?a?=",
        "=?base64?a?=x",
        "=?BASE64?a?=",
    ] {
        assert_eq!(text(plain), plain);
    }
    let encoded = [
        " ",
        " a",
        "a ",
        "\t",
        "\ta",
        "a\t",
        "a\tb",
        "a\r\nb",
        "\0",
        "a\u{1f}",
        "\u{7f}",
        "é",
        "\u{80}",
        "𝄞",
        "=?base64?=",
    ];
    for other in encoded.into_iter().chain(["=?base64??=", "=?base64?a?="]) {
        assert!(text(other).starts_with("=?base64?") && text(other) != other, "{other:?}");
    }
}

#[test]
fn base64_has_its_padding() {
    let cases = [
        ("\0", "AA=="),
        ("\0\0", "AAA="),
        ("\0\0\0", "AAAA"),
        ("\u{1}foob", "AWZvb2I="),
        ("ÿ", "w78="),
        ("\u{3ff}", "z78="),
    ];
    for (value, expected) in cases {
        assert_eq!(text(value), format!("=?base64?{expected}?="));
    }
}

#[test]
fn integers_are_decimal_and_within_two_to_the_53() {
    let max = "9007199254740991";
    let cases = [
        ("0", "0"),
        ("-0", "0"),
        ("0.0", "0"),
        ("0e99999999999999999999", "0"),
        ("42.0", "42"),
        ("4.2e1", "42"),
        ("4.2E+1", "42"),
        ("-420e-1", "-42"),
        ("100", "100"),
        ("1e15", "1000000000000000"),
        ("100000000000000000000000000e-20", "1000000"),
        (max, max),
        ("-9007199254740991", "-9007199254740991"),
        ("9007199254740991.000", max),
        // No integers, and nothing that a schema with a mark allows.
        ("2.71", "2.71"),
        ("-1e-3", "-1e-3"),
        ("1e-99999999999999999999", "1e-99999999999999999999"),
    ];
    for (raw, expected) in cases {
        assert_eq!(written(raw).as_deref(), Ok(expected), "{raw}");
    }
    let unfit = [
        "9007199254740992",
        "-9007199254740992",
        "1e16",
        "1e99999999999999999999",
        "123456789012345678901234567890",
    ];
    for raw in unfit.into_iter().chain(["null", "{}", "[]", "[\"a\"]", ""]) {
        assert_eq!(written(raw), Err(Unfit), "{raw}");
    }
}

#[test]
fn the_name_is_that_of_what_is_asked_for() {
    let named = |method, params: &str| {
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
        let parts = RequestParts::of(&envelope::read(request.as_bytes()).unwrap()).unwrap();
        name(method, request.as_bytes(), &parts).map(|span| request[span.start()..span.end()].to_string())
    };
    let params = r#"{"_meta":{"name":"no"},"taskId":"t-1","name":"old","n\u0061me":"get \u0077eather","uri":"file:///a","arguments":{"name":1}}"#;
    let of = |method| named(method, params);
    let some = |text: &str| Some(text.to_string());
    assert_eq!(of(Method::ToolsCall), some(r#""get \u0077eather""#));
    assert_eq!(of(Method::PromptsGet), of(Method::ToolsCall));
    assert_eq!(of(Method::ResourcesRead), some("\"file:///a\""));
    assert_eq!(of(Method::Tasks), some("\"t-1\""));
    for other in [Method::ToolsList, Method::Subscribe, Method::Complete, Method::Discover, Method::Other] {
        assert_eq!(of(other), None);
    }
    for none in ["{}", r#"{"name":null}"#, r#"{"name":1}"#, r#"{"arguments":{"name":"a"}}"#] {
        assert_eq!(named(Method::ToolsCall, none), None);
    }
}

#[test]
fn the_tool_of_the_specification() {
    let tool = r#"{"name":"execute_sql","description":"Execute SQL","inputSchema":{"type":"object","properties":{
        "region":{"type":"string","description":"where","x-mcp-header":"Region"},
        "query":{"type":"string","description":"what"}},"required":["region","query"]}}"#;
    let arguments = r#"{"region":"us-west1","query":"SELECT * FROM users"}"#;
    assert_eq!(headers(tool, arguments), pairs(&[("Mcp-Param-Region", "us-west1")]));
}

/// The scenario `http-custom-headers` of the conformance suite.
#[test]
fn custom_headers_as_the_suite_wants_them() {
    let mut properties = json!({"priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"}, "debug": {"type": "boolean", "x-mcp-header": "Debug"},
        "float_val": {"type": "number"}, "query": {"type": "string"}});
    let texts = [
        ("region", "Region", "us-west1", "us-west1"),
        ("empty_val", "EmptyVal", "", ""),
        ("method_val", "Method", "test-method", "test-method"),
        ("non_ascii_val", "NonAscii", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("whitespace_val", "Whitespace", " padded ", "=?base64?IHBhZGRlZCA=?="),
        ("leading_space_val", "LeadingSpace", " us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("trailing_space_val", "TrailingSpace", "us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("internal_space_val", "InternalSpace", "us west 1", "us west 1"),
        ("control_char_val", "ControlChar", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("crlf_val", "CrLf", "line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("tab_val", "Tab", "\tindented", "=?base64?CWluZGVudGVk?="),
    ];
    let mut arguments = json!({"priority": 42, "verbose": false, "debug": true, "float_val": 2.71, "query": "SELECT * FROM users"});
    let mut expected =
        pairs(&[("Mcp-Param-Priority", "42"), ("Mcp-Param-Verbose", "false"), ("Mcp-Param-Debug", "true")]);
    for (property, header, value, in_header) in texts {
        properties[property] = json!({"type": "string", "description": "d", "x-mcp-header": header});
        arguments[property] = value.into();
        expected.push((format!("Mcp-Param-{header}"), in_header.into()));
    }
    let tool = with(&properties);
    assert_eq!(headers(&tool, &arguments.to_string()), expected);
    // Neither null nor what is not there.
    let arguments =
        json!({"region": "us-east1", "priority": 1, "verbose": null, "query": "SELECT 1"}).to_string();
    assert_eq!(
        headers(&tool, &arguments),
        pairs(&[("Mcp-Param-Priority", "1"), ("Mcp-Param-Region", "us-east1")])
    );
    assert_eq!(headers(&tool, "{}"), []);
}

/// The scenario `http-invalid-tool-headers` of the conformance suite.
#[test]
fn invalid_tools_as_the_suite_has_them() {
    let marked = |schema: Value| {
        fault(&json!({"type": "object", "properties": {"value": schema}, "required": ["value"]}))
    };
    assert_eq!(marked(json!({"type": "string", "x-mcp-header": "Region"})), None);
    assert_eq!(marked(json!({"type": "string", "x-mcp-header": ""})), Some(Fault::Empty));
    assert_eq!(marked(json!({"type": "object", "x-mcp-header": "Data"})), Some(Fault::NotPrimitive));
    let items = json!({"type": "array", "items": {"type": "string"}, "x-mcp-header": "Items"});
    assert_eq!(marked(items), Some(Fault::NotPrimitive));
    assert_eq!(marked(json!({"type": "null", "x-mcp-header": "Nil"})), Some(Fault::NotPrimitive));
    for name in [
        "My Region",
        "Region:Primary",
        "Région",
        "Region\t1",
        "a\r\nb",
        "a\u{0}",
        "\"",
        "(a)",
        "a/b",
        "a@b",
        "é",
    ] {
        assert_eq!(
            marked(json!({"type": "string", "x-mcp-header": name})),
            Some(Fault::NotToken),
            "{name:?}"
        );
    }
    for (one, other) in [("Region", "Region"), ("MyField", "myfield")] {
        let properties = json!({"field1": {"type": "string", "x-mcp-header": one},
            "field2": {"type": "string", "x-mcp-header": other}});
        assert_eq!(fault(&json!({"type": "object", "properties": properties})), Some(Fault::Repeated));
    }
}

#[test]
fn only_strings_integers_and_booleans_may_be_marked() {
    let marked = |schema: Value| fault(&json!({"properties": {"p": schema}}));
    for kind in ["string", "integer", "boolean"] {
        assert_eq!(marked(json!({"x-mcp-header": "A", "type": kind})), None);
    }
    for kind in [json!("number"), json!("String"), json!(["string"]), json!(["integer", "null"]), json!(null)]
    {
        assert_eq!(marked(json!({"x-mcp-header": "A", "type": kind})), Some(Fault::NotPrimitive), "{kind}");
    }
    assert_eq!(marked(json!({"x-mcp-header": "A"})), Some(Fault::NotPrimitive));
    assert_eq!(marked(json!({"x-mcp-header": "A", "enum": ["a"]})), Some(Fault::NotPrimitive));
    assert_eq!(marked(json!({"x-mcp-header": "A", "$ref": "#/$defs/a"})), Some(Fault::NotPrimitive));
    for header in [json!(1), json!(null), json!(["A"]), json!({"A": 1}), json!(true)] {
        assert_eq!(
            marked(json!({"x-mcp-header": header, "type": "string"})),
            Some(Fault::NotText),
            "{header}"
        );
    }
}

#[test]
fn every_character_of_a_token_is_allowed() {
    for byte in 0..=0x7f {
        let name = char::from(byte).to_string();
        let expected = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let found = fault(&json!({"properties": {"p": {"x-mcp-header": name, "type": "string"}}}));
        assert_eq!(found, (!expected).then_some(Fault::NotToken), "{name:?}");
    }
}

#[test]
fn only_a_chain_of_properties_leads_to_a_mark() {
    let mark = || json!({"type": "string", "x-mcp-header": "A"});
    let property = || json!({"type": "object", "properties": {"p": mark()}});
    assert_eq!(fault(&property()), None);
    assert_eq!(fault(&json!({"properties": {"o": property()}})), None);
    // The schema itself is no parameter.
    assert_eq!(fault(&mark()), Some(Fault::Unreachable));
    let singles = [
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "contentSchema",
        "not",
        "if",
        "then",
        "else",
    ];
    for keyword in singles {
        for inner in [mark(), property(), json!({"allOf": [mark()]})] {
            let schema = json!({"properties": {"o": {"type": "object", keyword: inner}}});
            assert_eq!(fault(&schema), Some(Fault::Unreachable), "{keyword}");
            assert_eq!(fault(&json!({keyword: inner})), Some(Fault::Unreachable), "{keyword}");
        }
    }
    for keyword in ["oneOf", "anyOf", "allOf", "prefixItems", "items"] {
        for inner in [mark(), property()] {
            assert_eq!(fault(&json!({keyword: [true, [], inner]})), Some(Fault::Unreachable), "{keyword}");
        }
    }
    for keyword in ["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"] {
        for inner in [mark(), property()] {
            let schema = json!({"properties": {"o": {keyword: {"a": ["b"], "p": inner}}}});
            assert_eq!(fault(&schema), Some(Fault::Unreachable), "{keyword}");
        }
    }
    // Behind a wrong turn, properties lead nowhere either.
    let schema = json!({"allOf": [{"properties": {"a": {"properties": {"b": mark()}}}}]});
    assert_eq!(fault(&schema), Some(Fault::Unreachable));
}

#[test]
fn what_looks_like_a_mark_may_be_something_else() {
    // A parameter of that name, data, a text, and keywords that nobody knows.
    for schema in [
        json!({"properties": {"x-mcp-header": {"type": "number"}}}),
        json!({"properties": {"a": {"type": "object", "default": {"x-mcp-header": 1}, "enum": [{"x-mcp-header": ""}]}}}),
        json!({"properties": {"a": {"const": {"x-mcp-header": 1}, "examples": [{"x-mcp-header": 1}]}}}),
        json!({"description": "x-mcp-header", "x-mcp-headers": 1, "X-Mcp-Header": 1, "x-other": {"x-mcp-header": 1}}),
        json!({"required": ["x-mcp-header"], "properties": ["x-mcp-header"], "allOf": "x-mcp-header", "items": true}),
        json!("x-mcp-header"),
        json!([{"x-mcp-header": 1}]),
    ] {
        assert_eq!(fault(&schema), None, "{schema}");
    }
    // Such a parameter may itself be marked.
    let tool = with(&json!({"x-mcp-header": {"type": "string", "x-mcp-header": "A"}}));
    assert_eq!(headers(&tool, r#"{"x-mcp-header":"v"}"#), pairs(&[("Mcp-Param-A", "v")]));
    // Outside of the schema of the arguments it means nothing.
    let tool = br#"{"name":"x-mcp-header","x-mcp-header":1,"outputSchema":{"x-mcp-header":1}}"#;
    assert_eq!(check(tool, whole(tool)), Ok(()));
}

#[test]
fn values_are_found_at_their_exact_path() {
    let tool = with(
        &json!({"a": {"properties": {"b": {"properties": {"c": {"type": "string", "x-mcp-header": "C"}},
        "type": "object"}, "d": {"type": "integer", "x-mcp-header": "D"}}}, "c": {"type": "string"}}),
    );
    let arguments =
        json!({"c": "no", "b": {"c": "no"}, "a": {"c": "no", "d": 5, "b": {"c": "yes"}}}).to_string();
    assert_eq!(headers(&tool, &arguments), pairs(&[("Mcp-Param-C", "yes"), ("Mcp-Param-D", "5")]));
    for none in [
        "{}",
        r#"{"a":null}"#,
        r#"{"a":"b"}"#,
        r#"{"a":{"b":[{"c":"no"}]}}"#,
        r#"{"a":{"b":{"c":null}}}"#,
        "null",
    ] {
        assert_eq!(headers(&tool, none), [], "{none}");
    }
}

#[test]
fn names_are_compared_after_unescaping() {
    let tool = r#"{"inputSch\u0065ma":{"prop\u0065rties":{"r\u00e9gion \uD834\uDD1E":{"typ\u0065":"\u0073tring",
        "\u0078-mcp-header":"R\u0065gion"}}}}"#;
    assert_eq!(headers(tool, r#"{"région 𝄞":"v"}"#), pairs(&[("Mcp-Param-Region", "v")]));
    assert_eq!(
        headers(tool, r#"{"r\u00E9gion\u0020\ud834\udd1e":"\u0076"}"#),
        pairs(&[("Mcp-Param-Region", "v")])
    );
    assert_eq!(headers(tool, r#"{"region":"v","région":"v"}"#), []);
    // No way of writing the keyword hides it.
    for hidden in ["x-mcp-heade\\u0072", "\\u0078\\u002d\\u006D\\u0063\\u0070-header"] {
        let list = format!(r#"{{"tools":[{{"inputSchema":{{"{hidden}":"A"}}}}]}}"#);
        let found: Vec<_> = tools(list.as_bytes(), whole(list.as_bytes())).map(|tool| tool.fault).collect();
        assert_eq!(found, [Some(Fault::Unreachable)], "{hidden}");
    }
    let tool = r#"{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A\u0042"},
        "b":{"type":"string","x-mcp-header":"\u0061b"}}}}"#;
    assert_eq!(check(tool.as_bytes(), whole(tool.as_bytes())), Err(Fault::Repeated));
}

#[test]
fn of_repeated_names_the_last_counts() {
    let tool = r#"{"inputSchema":{"allOf":[{"x-mcp-header":1}]},"inputSchema":{"properties":{
        "a":{"type":"number","type":"string","x-mcp-header":"A"}}}}"#;
    assert_eq!(headers(tool, r#"{"a":"1","\u0061":"2"}"#), pairs(&[("Mcp-Param-A", "2")]));
    assert_eq!(headers(tool, r#"{"a":"1","a":null}"#), []);
    let tool =
        br#"{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}}"#;
    assert_eq!(check(tool, whole(tool)), Err(Fault::Repeated));
}

#[test]
fn depth_and_number_are_bounded() {
    let nested = |levels: usize, innermost: Value| {
        (0..levels).fold(innermost, |inner, _| json!({"type": "object", "properties": {"p": inner}}))
    };
    let mark = json!({"type": "string", "x-mcp-header": "A"});
    assert_eq!(fault(&nested(MAX_PATH, mark.clone())), None);
    assert_eq!(fault(&nested(MAX_PATH + 1, mark.clone())), Some(Fault::TooDeep));
    assert_eq!(fault(&nested(50, mark.clone())), Some(Fault::TooDeep));
    // Without a mark nothing is too deep.
    let mut schema = nested(50, json!({"type": "string"}));
    schema["properties"]["q"] = mark.clone();
    assert_eq!(fault(&schema), None);
    let listed = (0..50).fold(json!({"type": "string"}), |inner, _| json!({"allOf": [inner]}));
    assert_eq!(fault(&json!({"properties": {"p": mark, "q": listed}})), None);
    let listed = (0..50).fold(mark, |inner, _| json!({"allOf": [inner]}));
    assert_eq!(fault(&listed), Some(Fault::TooDeep));

    let many = |count: usize| {
        let properties: serde_json::Map<String, Value> = (0..count)
            .map(|n| (n.to_string(), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
            .collect();
        json!({ "properties": properties })
    };
    assert_eq!(fault(&many(MAX_ANNOTATIONS)), None);
    assert_eq!(fault(&many(MAX_ANNOTATIONS + 1)), Some(Fault::TooMany));
}

#[test]
fn a_list_is_gone_through_in_order() {
    let list = r#" {"tools" : [ {"name":"a"}, 1, {"name":"b","inputSchema":{"x-mcp-header":""}} ], "nextCursor":"c"}"#;
    let found: Vec<_> = tools(list.as_bytes(), whole(list.as_bytes()))
        .map(|tool| (core::str::from_utf8(tool.span.of(list.as_bytes())).unwrap(), tool.fault.is_some()))
        .collect();
    let last = r#"{"name":"b","inputSchema":{"x-mcp-header":""}}"#;
    assert_eq!(found, [(r#"{"name":"a"}"#, false), ("1", false), (last, true)]);
    for none in ["{}", r#"{"tools":null}"#, r#"{"tools":{}}"#, r#"{"tools":[]}"#, "[]"] {
        assert_eq!(tools(none.as_bytes(), whole(none.as_bytes())).count(), 0, "{none}");
    }
}

#[test]
fn bytes_that_nobody_validated_do_no_harm() {
    let tool = br#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},
        "b":{"properties":{"c":{"x-mcp-header":"\u0042","type":"integer"}}},"d":{"allOf":[{"items":[{}]}]}}}}"#;
    for cut in 0..tool.len() {
        for byte in b"\0\"\\{}[],:x" {
            let mut changed = tool.to_vec();
            changed[cut] = *byte;
            for bytes in [&changed[..], &tool[..cut]] {
                let span = Span::new(0, bytes.len());
                let _ = check(bytes, span);
                for annotation in annotations(bytes, span) {
                    assert!(annotation.path().iter().all(|name| name.end() <= bytes.len()));
                    let _ = annotation.argument(bytes, bytes, span);
                    let mut buffer = [0; 200];
                    let mut w = Writer::new(&mut buffer);
                    annotation.write_name(bytes, &mut w);
                    let _ = write_value(&bytes[cut.min(bytes.len())..], &mut w);
                }
            }
        }
    }
    assert!(same_text(b"\"\\u0041\"", b"\"A\"") && !same_text(b"\"A\"", b"\"AB\""));
}

#[test]
fn a_refusal_for_headers_is_told_from_others() {
    for (error, refused) in
        [(r#"{"code":-32020,"message":""}"#, true), (r#"{"code":-32602}"#, false), ("{}", false)]
    {
        let error = error.as_bytes();
        assert_eq!(crate::http::headers::were_refused(error, Span::new(0, error.len())), refused);
    }
}
