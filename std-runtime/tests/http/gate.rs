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
