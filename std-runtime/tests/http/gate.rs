//! Who may come in.

use drowse_core::era::Era;
use drowse_runtime::serve::{Options, ServeError};
use serde_json::json;

use super::peer::{plain, serve};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[test]
fn pages_of_others_do_not_get_in() {
    plain(async |endpoint| {
        for headers in [
            &[("host", "evil.example")][..],
            &[("host", "")],
            &[("host", "localhost"), ("origin", "http://evil.example")],
            &[("host", "localhost"), ("origin", "null")],
        ] {
            let mut client = endpoint.connect().await;
            client.request("POST", headers, CALL).await;
            let (head, answer) = client.answer().await;
            assert_eq!((head.status, &answer["id"]), (403, &json!(null)), "{headers:?}");
        }
        let mut client = endpoint.connect().await;
        client.write(b"POST /mcp HTTP/1.0\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(client.head().await.status, 403);
        let mut client = endpoint.connect().await;
        client.write(b"GET http://evil.example/mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert_eq!(client.head().await.status, 403);
        let host = endpoint.address.to_string();
        let mut client = endpoint.connect().await;
        client
            .modern_with(
                &[("host", &host), ("origin", "http://localhost:1")],
                &json!(1),
                "tools/list",
                json!({}),
            )
            .await;
        assert_eq!(client.answer().await.0.status, 200);
        assert_eq!(endpoint.stage.starts(), 1);
    });
}

#[test]
fn nobody_gets_in_without_the_token() {
    let with_token = |options: &mut Options| options.token = Some("t0ken".to_owned());
    serve(Era::Modern, with_token, async |endpoint| {
        let mut client = endpoint.connect().await;
        for given in [None, Some("Bearer"), Some("Bearer t0kem"), Some("Basic t0ken")] {
            let more: Vec<(&str, &str)> = given.into_iter().map(|given| ("authorization", given)).collect();
            client.modern_with(&more, &json!(1), "tools/list", json!({})).await;
            let (head, answer) = client.answer().await;
            assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer")), "{given:?}");
            assert!(!answer.to_string().contains("t0ken"));
        }
        assert_eq!(endpoint.stage.starts(), 0);
        client.modern_with(&[("authorization", "Bearer t0ken")], &json!(1), "tools/list", json!({})).await;
        assert_eq!(client.answer().await.0.status, 200);
    });
}

#[test]
fn what_cannot_be_served_is_said() {
    for token in ["", " ", "a b", "a\nb"] {
        let options = Options { token: Some(token.to_owned()), ..Options::default() };
        assert!(matches!(options.check(), Err(ServeError::Token(_))), "{token:?}");
    }
    for path in ["", "mcp", "/a b", "/a?b", "/{a}", "/*a", "/:a"] {
        let options = Options { path: path.to_owned(), ..Options::default() };
        assert!(matches!(options.check(), Err(ServeError::Path)), "{path:?}");
    }
    assert!(Options::default().check().is_ok());
}

const TOOL: &str = "https://tool.example";

fn with_page(options: &mut Options) {
    options.origins = vec![TOOL.to_owned()];
    options.token = Some("t0ken".to_owned());
}

#[test]
fn a_page_that_is_allowed_by_name_is_told_what_it_may_send() {
    serve(Era::Modern, with_page, async |endpoint| {
        let mut client = endpoint.connect().await;
        let asks = [
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type,mcp-param-region,x-other"),
        ];
        let from = |origin: &'static str| [&[("origin", origin)][..], &asks].concat();
        // Browsers send no token with it.
        client.request("OPTIONS", &from(TOOL), "").await;
        let head = client.head().await;
        assert_eq!((head.status, head.header("access-control-allow-origin")), (204, Some(TOOL)));
        assert_eq!(head.header("access-control-allow-methods"), Some("POST, GET, DELETE"));
        let allowed: Vec<&str> = head.header("access-control-allow-headers").unwrap().split(", ").collect();
        for name in [
            "authorization",
            "content-type",
            "accept",
            "mcp-session-id",
            "mcp-protocol-version",
            "last-event-id",
            "mcp-method",
            "mcp-name",
            "mcp-param-region",
        ] {
            assert!(allowed.contains(&name), "{name}: {allowed:?}");
        }
        assert!(!allowed.contains(&"x-other"));
        assert!(head.header("access-control-allow-credentials").is_none());
        // To others nothing is said.
        for (origin, status) in [("http://tool.example", 403), ("null", 403), ("http://localhost:1", 401)] {
            client.request("OPTIONS", &from(origin), "").await;
            let (head, _) = client.answer().await;
            assert_eq!((head.status, head.header("access-control-allow-origin")), (status, None), "{origin}");
        }
        // One that asks nothing is no such question.
        client.request("OPTIONS", &[("origin", TOOL)], "").await;
        assert_eq!(client.answer().await.0.status, 401);
        client.request("OPTIONS", &[&[("host", "evil.example")][..], &from(TOOL)].concat(), "").await;
        assert_eq!(client.answer().await.0.status, 403);
        assert_eq!(endpoint.stage.starts(), 0);
    });
}

#[test]
fn such_a_page_reads_answers_and_needs_the_token() {
    serve(Era::Modern, with_page, async |endpoint| {
        let mut client = endpoint.connect().await;
        client.modern_with(&[("origin", TOOL)], &json!(1), "tools/list", json!({})).await;
        let (head, _) = client.answer().await;
        assert_eq!(
            (head.status, head.header("access-control-allow-origin")),
            (401, Some(TOOL)),
            "it can read why"
        );
        let token = ("authorization", "Bearer t0ken");
        for (method, status) in [("tools/list", 200), ("nonsense", 404)] {
            client.modern_with(&[("origin", TOOL), token], &json!(1), method, json!({})).await;
            let (head, _) = client.answer().await;
            assert_eq!((head.status, head.header("access-control-allow-origin")), (status, Some(TOOL)));
            assert_eq!(head.header("access-control-expose-headers"), Some("mcp-session-id"));
            assert_eq!(head.header("vary"), Some("origin"));
        }
        let params = json!({"name": "slow", "arguments": {"seconds": 0.1, "every": 0.02}, "_meta": {"progressToken": 1}});
        client.modern_with(&[("origin", TOOL), token], &json!(1), "tools/call", params).await;
        let head = client.head().await;
        assert_eq!((head.is_stream(), head.header("access-control-allow-origin")), (true, Some(TOOL)));
        // Pages of this machine and clients that are none are told nothing, as before.
        for more in [&[token][..], &[token, ("origin", "http://localhost:1")]] {
            let mut client = endpoint.connect().await;
            client.modern_with(more, &json!(1), "tools/list", json!({})).await;
            let (head, _) = client.answer().await;
            assert_eq!(
                (head.status, head.header("access-control-allow-origin"), head.header("vary")),
                (200, None, None)
            );
        }
    });
}
