//! Bodies that are no JSON as they are sent, and what else of a head says how one comes.

use drowse_core::era::Era;
use serde_json::json;

use super::peer::{call, plain, serve};

#[test]
fn bodies_that_are_packed_are_not_taken_for_broken_ones() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let body = call(1, "echo", json!({"tag": "never"})).to_string();
        let json = ("content-type", "application/json");
        for (more, status, said) in [
            (&[json, ("content-encoding", "gzip")][..], 415, "packed"),
            (&[json, ("content-encoding", "identity"), ("content-encoding", "br")], 415, "packed"),
            (&[("content-type", "application/json; charset=utf-16")], 415, "UTF-8"),
            (&[("content-type", "text/plain")], 415, "application/json"),
        ] {
            let mut client = endpoint.connect().await;
            let headers = [&[("mcp-session-id", session.as_str())][..], more].concat();
            client.request("POST", &headers, &body).await;
            let (head, answer) = client.answer().await;
            assert_eq!((head.status, &answer["error"]["code"]), (status, &json!(-32000)), "{more:?}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{answer}");
            let packed = said == "packed";
            assert_eq!(head.header("accept-encoding"), packed.then_some("identity"), "{more:?}");
        }
        assert_eq!(endpoint.stage.runs("never"), 0);
        for more in [
            &[json, ("content-encoding", "identity")][..],
            &[("content-type", "application/json; charset=\"UTF-8\"")],
        ] {
            let mut client = endpoint.connect().await;
            let headers = [&[("mcp-session-id", session.as_str())][..], more].concat();
            client.request("POST", &headers, &body).await;
            assert_eq!(client.answer().await.0.status, 200, "{more:?}");
        }
    });
}

#[test]
fn what_is_encoded_on_its_way_is_refused() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let body = call(1, "echo", json!({"tag": "never"})).to_string();
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for (codings, statuses) in [
            ("transfer-encoding: gzip, chunked", &[501][..]),
            ("transfer-encoding: gzip\r\ntransfer-encoding: chunked", &[501]),
            ("transfer-encoding: chunked, gzip", &[400]),
            ("transfer-encoding: identity", &[400, 501]),
            ("transfer-encoding: x", &[400]),
        ] {
            let mut client = endpoint.connect().await;
            client.write(format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n{codings}\r\n\r\n{chunks}").as_bytes()).await;
            let head = client.head().await;
            assert!(statuses.contains(&head.status), "{codings}: {head:?}");
        }
        assert_eq!(endpoint.stage.runs("never"), 0);
    });
}

#[test]
fn who_waits_to_be_told_to_go_on_is_told_or_refused() {
    let with_token = |options: &mut drowse_runtime::serve::Options| options.token = Some("t0ken".to_owned());
    serve(Era::Modern, with_token, async |endpoint| {
        let params = super::peer::with_meta(json!({}));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}).to_string();
        let head = |token: &str, more: &str| {
            format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {token}\r\n\
                 mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\nexpect: 100-continue\r\n{more}content-length: {}\r\n\r\n",
                body.len()
            )
        };
        let mut client = endpoint.connect().await;
        client.write(head("t0ken", "").as_bytes()).await;
        assert_eq!(client.head().await.status, 100);
        client.write(body.as_bytes()).await;
        assert_eq!(client.answer().await.0.status, 200);
        // It is not asked for what is refused in any case.
        for (token, more, status) in [("other", "", 401), ("t0ken", "content-encoding: gzip\r\n", 415)] {
            let mut client = endpoint.connect().await;
            client.write(head(token, more).as_bytes()).await;
            assert_eq!(client.answer().await.0.status, status);
        }
    });
}
