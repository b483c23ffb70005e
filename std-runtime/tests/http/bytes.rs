//! What servers and clients are told over HTTP is what they are told on a stream, to the byte.

use std::time::Duration;

use drowse_core::era::Era;
use serde_json::Value;

use super::peer::{Endpoint, serve};
use crate::bridge::Caller;

/// A request, and what the server says to it: `<id>` is the request's on the wire.
struct Carried {
    method: &'static str,
    /// What the header says of the body.
    name: &'static str,
    params: &'static str,
    says: &'static [&'static str],
}

const CARRIED: [Carried; 5] = [
    Carried {
        method: "prompts/list",
        name: "",
        params: r#""cursor":"\u00e9\/\"""#,
        says: &[
            r#"{"id":<id>,"jsonrpc":"2.0","result":{"prompts":[ {"name":"p"} ],"nextCursor":"c\u0041"}}"#,
        ],
    },
    Carried {
        method: "tools/call",
        name: "t",
        params: r#""name":"\u0074","arguments":{"n":[1.50,-0,1E2,12345678901234567890],"😀":"\ud83d\ude00\n", "a" : null}"#,
        says: &[
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0,"progressToken":<id>,"message":"\u00e9"}}"#,
            r#"{"jsonrpc":"2.0","id":<id>,"result":{"content":[{"type":"text","text":"\u2028\\"}],"structuredContent":{"x":1.0},"isError":true}}"#,
        ],
    },
    Carried {
        method: "prompts/get",
        name: "p",
        params: r#""name":"p""#,
        says: &[
            r#"{"jsonrpc":"2.0","id":<id>,"error":{"code":-32055,"message":"n\u006f","data":{"a":1e0}}}"#,
        ],
    },
    Carried {
        method: "resources/read",
        name: "a:1",
        params: r#""uri":"a:\u0031""#,
        says: &[
            r#"{"jsonrpc":"2.0","id":<id>,"error":{"code":-32602,"message":"gone","data":{"uri":"a:1"}}}"#,
        ],
    },
    Carried {
        method: "resources/read",
        name: "a:2",
        params: r#""uri":"a:2""#,
        says: &[
            r#"{"jsonrpc":"2.0","id":<id>,"result":{"resultType":"complete","contents":[{"uri":"a:2","blob":"AA=="}],"ttlMs":0,"cacheScope":"private"}}"#,
        ],
    },
];

/// Ids as only few clients write them, and a token.
const ID: &str = r#""i\u0064 \"""#;
const TOKEN: &str = r#""t\u0000""#;
const NEW: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
const OPENS: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Waits for the request at the server, lets that say what it says, and gives the request without its id.
async fn answered(endpoint: &Endpoint, before: usize, carried: &Carried) -> String {
    let method = format!(r#""method":"{}""#, carried.method);
    let find = |lines: Vec<String>| lines.into_iter().skip(before).find(|line| line.contains(&method));
    endpoint.stage.until(|stage| find(stage.lines()).is_some()).await;
    let line = find(endpoint.stage.lines()).unwrap();
    let id = serde_json::from_str::<Value>(&line).unwrap()["id"].to_string();
    for said in carried.says {
        endpoint.stage.server_writes(said.replace("<id>", &id));
    }
    let forget =
        |line: String, key: &str| line.replace(&format!(r#""{key}":{id}"#), &format!(r#""{key}":_"#));
    forget(forget(line, "id"), "progressToken")
}

async fn compare(client: Era, endpoint: Endpoint) {
    endpoint.modern("tools/list", serde_json::json!({})).await;
    let mut streamed = Caller::of_proxy(&endpoint.hub);
    let mut session = None;
    if client == Era::Legacy {
        session = Some(endpoint.session("2025-11-25").await);
        streamed.line(OPENS).await;
        streamed.next_line().await.unwrap();
    }
    // Whatever is opened for a client by itself is open by now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    endpoint.stage.answer_by_hand(true);
    for carried in &CARRIED {
        let Carried { method, name, params, says } = carried;
        let meta = if client == Era::Legacy { "" } else { NEW };
        let comma = if client == Era::Legacy { "" } else { "," };
        let body = format!(
            r#"{{"params":{{"_meta":{{{meta}{comma}"progressToken":{TOKEN}}},{params}}},"jsonrpc":"2.0","id":{ID},"method":"{method}"}}"#
        );
        let before = endpoint.stage.lines().len();
        streamed.line(&body).await;
        let arrived = answered(&endpoint, before, carried).await;
        let mut told = Vec::new();
        for _ in *says {
            told.push(streamed.next_line().await.unwrap());
        }

        let before = endpoint.stage.lines().len();
        let mut connection = endpoint.connect().await;
        let mut headers =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        match &session {
            Some(session) => headers.push(("mcp-session-id", session)),
            None => headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", *method)]),
        }
        if session.is_none() && !name.is_empty() {
            headers.push(("mcp-name", name));
        }
        connection.request("POST", &headers, &body).await;
        assert_eq!(answered(&endpoint, before, carried).await, arrived);
        let head = connection.head().await;
        let mut heard = Vec::new();
        if head.is_stream() {
            while let Some(event) = connection.event().await {
                heard.extend(event.data.filter(|data| !data.is_empty()));
            }
        } else {
            heard.push(String::from_utf8(connection.body(&head).await).unwrap());
        }
        assert_eq!(heard, told, "{method} of a client of {client:?}");
        assert!(told.last().unwrap().contains(ID), "{told:?}");
    }
}

#[test]
fn both_fronts_say_the_same_bytes() {
    for client in [Era::Legacy, Era::Modern] {
        for server in [Era::Legacy, Era::Modern] {
            serve(server, |_| {}, async |endpoint| compare(client, endpoint).await);
        }
    }
}
