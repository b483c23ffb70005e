//! Legacy clients that lose their streams while a legacy server waits for their answers, and those who are there.

use std::time::Duration;

use drowse_core::held::{GRACE, SETTLING};
use serde_json::{Value, json};

use super::peer::{Client, Endpoint, call, plain};
use crate::bridge::{Event, Stage};

const LATEST: &str = "2025-11-25";

/// A call of a session, tagged as the question that the server asks during it.
struct Asked {
    session: String,
    stream: Client,
    /// The last event that was read.
    last: Option<String>,
}

async fn begin(endpoint: &Endpoint, tag: &str) -> Asked {
    let session = endpoint.session_with(LATEST, json!({"elicitation": {"form": {}}})).await;
    let (head, stream) = endpoint.say(&session, call(1, "never", json!({"tag": tag}))).await;
    assert!(head.is_stream());
    endpoint.stage.until(|stage| stage.runs(tag) > 0).await;
    Asked { session, stream, last: None }
}

fn server_asks(stage: &Stage, id: &str) {
    stage.server_says(&json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
        "message": id, "requestedSchema": {"type": "object", "properties": {}},
    }}));
}

impl Asked {
    /// The next message on its stream.
    async fn told(&mut self) -> Value {
        loop {
            let event = self.stream.event().await.expect("a stream");
            self.last = event.id.clone().or(self.last.take());
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                return event.message();
            }
        }
    }

    async fn is_asked(&mut self, message: &str) -> Value {
        let question = self.told().await;
        assert_eq!(
            (&question["method"], &question["params"]["message"]),
            (&json!("elicitation/create"), &json!(message))
        );
        question["id"].clone()
    }

    /// It comes back to the stream that it lost.
    async fn comes_back(mut self, endpoint: &Endpoint) -> Self {
        let (head, stream) = endpoint.listen(&self.session, self.last.as_deref()).await;
        assert_eq!(head.status, 200);
        self.stream = stream;
        self
    }

    /// It loses its stream.
    async fn leaves(mut self, endpoint: &Endpoint) -> Self {
        // Any other connection: that of the stream is closed.
        self.stream = endpoint.connect().await;
        self
    }

    async fn accepts(&self, endpoint: &Endpoint, id: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {}}});
        assert_eq!(endpoint.say(&self.session, answer).await.0.status, 202);
    }
}

/// What the server was told about a question of its own.
fn answer(stage: &Stage, id: &str) -> Option<Value> {
    stage.events().into_iter().find_map(|(_, event)| match event {
        Event::Got(message) if message.get("method").is_none() && message["id"] == id => {
            Some(message["result"]["action"].clone())
        }
        _ => None,
    })
}

fn finish(stage: &Stage, tag: &str) {
    let wire = stage.events().into_iter().find_map(|(_, event)| match event {
        Event::Got(message) if message["params"]["arguments"]["tag"] == tag => Some(message["id"].clone()),
        _ => None,
    });
    stage.server_says(&json!({"jsonrpc": "2.0", "id": wire, "result": {"content": []}}));
}

async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Time passes until the server is answered.
async fn answered(stage: &Stage, id: &str) -> Value {
    for _ in 0..20 {
        if let Some(answer) = answer(stage, id) {
            return answer;
        }
        pass(Duration::from_secs(1)).await;
    }
    panic!("{id} is not answered: {:?}", stage.events());
}

#[test]
fn the_question_of_who_is_away_gives_way_to_that_of_who_is_there() {
    plain(async |endpoint| {
        let stage = &endpoint.stage;
        let mut left = begin(&endpoint, "left").await;
        server_asks(stage, "left");
        left.is_asked("left").await;
        let left = left.leaves(&endpoint).await;
        let mut there = begin(&endpoint, "there").await;
        server_asks(stage, "there");
        server_asks(stage, "more");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((answer(stage, "left"), answer(stage, "there")), (None, None), "it may come back");
        assert_eq!(answered(stage, "left").await, "cancel");
        let waiting = (answer(stage, "there"), answer(stage, "more"));
        assert_eq!(waiting, (None, None), "they may be of the call that goes on");
        finish(stage, "left");
        for question in ["there", "more"] {
            let id = there.is_asked(question).await;
            there.accepts(&endpoint, &id).await;
            assert_eq!(answered(stage, question).await, "accept");
        }
        // From then on it is alone, and who was away learns what became of its call.
        server_asks(stage, "again");
        there.is_asked("again").await;
        let mut back = left.comes_back(&endpoint).await;
        let mut told = Vec::new();
        while let Some(event) = back.stream.event().await {
            told.extend(event.data.filter(|data| !data.is_empty()));
        }
        assert!(told.iter().any(|told| told.contains("notifications/cancelled")), "{told:?}");
        assert!(told.last().unwrap().contains("\"id\":1"), "{told:?}");
    });
}

#[test]
fn who_comes_back_in_time_keeps_its_question() {
    plain(async |endpoint| {
        let stage = &endpoint.stage;
        let mut left = begin(&endpoint, "left").await;
        server_asks(stage, "left");
        let id = left.is_asked("left").await;
        let left = left.leaves(&endpoint).await;
        let _there = begin(&endpoint, "there").await;
        server_asks(stage, "there");
        pass(GRACE / 2).await;
        assert_eq!(answer(stage, "there"), None);
        let back = left.comes_back(&endpoint).await;
        // It is there, so that it cannot be told whose the other question is.
        assert_eq!(answered(stage, "there").await, "cancel");
        assert_eq!(answer(stage, "left"), None);
        back.accepts(&endpoint, &id).await;
        assert_eq!(answered(stage, "left").await, "accept");
    });
}

#[test]
fn nobody_is_asked_if_the_call_of_who_is_away_goes_on() {
    plain(async |endpoint| {
        let stage = &endpoint.stage;
        let mut left = begin(&endpoint, "left").await;
        server_asks(stage, "left");
        left.is_asked("left").await;
        let _left = left.leaves(&endpoint).await;
        let mut there = begin(&endpoint, "there").await;
        server_asks(stage, "of either");
        assert_eq!(answered(stage, "left").await, "cancel");
        pass(SETTLING / 2).await;
        assert_eq!(answer(stage, "of either"), None);
        assert_eq!(answered(stage, "of either").await, "cancel");
        // All goes on without it.
        finish(stage, "left");
        server_asks(stage, "there");
        there.is_asked("there").await;
    });
}

#[test]
fn as_long_as_nobody_else_is_asked_who_is_away_has_its_time() {
    plain(async |endpoint| {
        let stage = &endpoint.stage;
        let mut left = begin(&endpoint, "left").await;
        server_asks(stage, "left");
        let id = left.is_asked("left").await;
        let left = left.leaves(&endpoint).await;
        let _there = begin(&endpoint, "there").await;
        pass(GRACE * 3).await;
        assert_eq!(answer(stage, "left"), None);
        left.comes_back(&endpoint).await.accepts(&endpoint, &id).await;
        assert_eq!(answered(stage, "left").await, "accept");
    });
}
