//! Servers that ask in the middle of a request, and who answers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod interviews {
    mod held;
    mod rounds;
    mod terminal;

    use serde_json::{Value, json};

    /// The arguments of the fixture's tool.
    fn script(rounds: &[Value]) -> String {
        json!({"script": rounds}).to_string()
    }

    /// A round that asks these questions.
    fn asks(questions: Value, state: &str) -> Value {
        json!({"resultType": "input_required", "inputRequests": questions, "requestState": state})
    }

    /// A question for a form with these properties.
    fn form(message: &str, properties: Value, required: Value) -> Value {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
    }
}
