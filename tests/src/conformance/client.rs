//! The client under test: `drowse` commands, in a home that is empty before and after.
//!
//! The suite tells the scenario and the version in the environment and the mock's URL as the last argument. Every
//! command must succeed; the first that does not ends the program with its output. Only when all did, and nothing of
//! them is left running, the last line says so.

use std::fs;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::harness::{Home, Run};

/// The last line of a client that did all that its scenario asks for. A client that was killed exits with 0 for the
/// suite, but not with this.
pub const DONE: &str = "all commands succeeded";

const SESSION: &str = "@mock";

/// Runs the commands of the scenario that the environment names. With `pinned`, the session is of a configuration entry
/// that says which version the server speaks; otherwise drowse finds that out.
///
/// # Panics
/// If a command fails.
pub fn main(url: &str, pinned: bool) -> ExitCode {
    let setting = |name: &str| std::env::var(format!("MCP_CONFORMANCE_{name}"));
    let (Ok(scenario), Ok(version)) = (setting("SCENARIO"), setting("PROTOCOL_VERSION")) else {
        eprintln!("this is run by the conformance suite, which says what to do in the environment");
        return ExitCode::from(2);
    };
    let context = setting("CONTEXT").ok().map_or(Value::Null, |text| parse(&text));
    {
        let client = Client { home: Home::new() };
        client.connect(url, pinned.then_some(version.as_str()), &scenario);
        client.act(&scenario, &context);
        let _ = client.session(&["close"]);
        // The home is dropped here, which fails if anything is left of the session.
    }
    println!("{DONE}");
    ExitCode::SUCCESS
}

struct Client {
    home: Home,
}

impl Client {
    fn connect(&self, url: &str, version: Option<&str>, scenario: &str) {
        let target = match version {
            None => url.to_owned(),
            Some(version) => {
                let file = self.home.path().join("mcp.json");
                let entry = json!({"mcpServers": {"mock": {"url": url, "mcpVersion": version}}});
                fs::write(&file, entry.to_string()).expect("a file in an empty directory");
                format!("{}:mock", file.display())
            }
        };
        let mut words = vec!["connect", &target, SESSION, "--json"];
        if scenario == "request-metadata" {
            // Whether capabilities are declared as they should be shows only where there are some.
            words.extend(["--root", ".", "--sampling-command", "false"]);
        }
        let _ = self.run(&words);
    }

    /// What the scenario wants to see.
    fn act(&self, scenario: &str, context: &Value) {
        let tools = self.list("tools-list");
        match scenario {
            "tools_call" => {
                self.call("add_numbers", &json!({"a": 5, "b": 3}));
            }
            "elicitation-sep1034-client-defaults" => {
                self.call("test_client_elicitation_defaults", &json!({}));
            }
            "sse-retry" => {
                let result = self.call("test_reconnection", &json!({}));
                assert!(
                    result["content"][0]["text"].is_string(),
                    "the result of the second stream: {result}"
                );
            }
            "request-metadata" => {
                let _ = self.session(&["ping", "--json"]);
                self.call("any", &json!({}));
            }
            "sep-2322-client-request-state" => self.call_each(&tools, &json!({})),
            "http-standard-headers" => {
                self.call_each(&tools, &json!({}));
                self.follow("resources-list", "uri", "resources-read");
                self.follow("prompts-list", "name", "prompts-get");
            }
            // Exactly these calls.
            "http-custom-headers" => {
                let calls = context["toolCalls"].as_array().expect("calls in the context");
                for call in calls {
                    self.call(text(&call["name"]), &call["arguments"]);
                }
            }
            // Those with wrong headers must not be in the list, and then are not called.
            "http-invalid-tool-headers" => self.call_each(&tools, &json!({"region": "eu"})),
            // What was received, as it was received.
            "json-schema-2020-12-preservation" => {
                let tool =
                    tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool").expect("the tool");
                self.call("json_schema_echo", &json!({"schema": tool["inputSchema"]}));
            }
            // The rest sees what it needs in the connect and the list.
            _ => {}
        }
    }

    fn call_each(&self, tools: &[Value], arguments: &Value) {
        assert!(!tools.is_empty(), "no tool is left to call");
        for tool in tools {
            self.call(text(&tool["name"]), arguments);
        }
    }

    /// Calls a tool, and answers what its server asks with the defaults that it gives.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        self.session(&["tools-call", tool, &arguments, "--elicit", "accept-defaults", "--json"]).json()
    }

    fn list(&self, verb: &str) -> Vec<Value> {
        self.session(&[verb, "--json"]).json().as_array().expect("a list").clone()
    }

    /// Lists, then gets everything that is listed.
    fn follow(&self, list: &str, key: &str, get: &str) {
        let listed = self.list(list);
        assert!(!listed.is_empty(), "{list} is empty");
        for one in &listed {
            let _ = self.session(&[get, text(&one[key]), "--json"]);
        }
    }

    fn session(&self, words: &[&str]) -> Run {
        let words: Vec<&str> = [SESSION].iter().chain(words).copied().collect();
        self.run(&words)
    }

    fn run(&self, words: &[&str]) -> Run {
        let run = self.home.run(words).ok();
        println!("{:4} ms  drowse {}", run.took.as_millis(), run.words);
        run
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the suite's context is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
