//! Tasks of the staged server: they begin as `working`, and a test says how they go on.

use drowse_core::era::Era;
use serde_json::{Value, json};

use super::Stage;
use super::server::Process;

/// One task.
pub(super) struct Task {
    id: String,
    status: &'static str,
    ttl: Value,
}

impl Task {
    fn show(&self, era: Era) -> Value {
        match era {
            Era::Legacy => json!({"taskId": self.id, "status": self.status, "ttl": self.ttl}),
            Era::Modern => {
                let mut task = json!({"resultType": "complete", "taskId": self.id, "status": self.status});
                task["ttlMs"] = self.ttl.clone();
                task
            }
        }
    }
}

impl Process {
    /// The tool `task`, called with an `id` and, if the task has one, a `ttl` in milliseconds.
    pub(super) fn create_task(&self, era: Era, params: &Value) -> Value {
        let arguments = &params["arguments"];
        let id = arguments["id"].as_str().unwrap_or_default().to_owned();
        let task = Task { id, status: "working", ttl: arguments["ttl"].clone() };
        let mut shown = task.show(era);
        self.given.borrow_mut().push(task);
        match era {
            Era::Legacy => json!({"task": shown}),
            Era::Modern => {
                shown["resultType"] = json!("task");
                shown
            }
        }
    }

    /// Has never heard of any.
    pub(crate) fn forget_tasks(&self) {
        self.given.borrow_mut().clear();
    }

    /// `tasks/…`; an error code where there is no such method or task.
    pub(super) fn of_tasks(&self, era: Era, method: &str, params: &Value) -> Result<Value, i64> {
        let mut tasks = self.given.borrow_mut();
        if (era, method) == (Era::Legacy, "tasks/list") {
            return Ok(json!({"tasks": tasks.iter().map(|task| task.show(era)).collect::<Vec<_>>()}));
        }
        let task = tasks.iter_mut().find(|task| params["taskId"] == task.id).ok_or(-32602)?;
        match (era, method) {
            (_, "tasks/get") => Ok(task.show(era)),
            (Era::Legacy, "tasks/result") => Ok(json!({"content": []})),
            (Era::Legacy, "tasks/cancel") => {
                task.status = "cancelled";
                Ok(task.show(era))
            }
            (Era::Modern, "tasks/cancel" | "tasks/update") => Ok(json!({"resultType": "complete"})),
            _ => Err(-32601),
        }
    }
}

impl Stage {
    /// Moves a task of the running server to another status.
    pub(crate) fn task_goes(&self, id: &str, status: &'static str) {
        for task in self.process().given.borrow_mut().iter_mut().filter(|task| task.id == id) {
            task.status = status;
        }
    }
}
