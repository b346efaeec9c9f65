//! What a client is asked, and what it says of an answer.
use serde::Deserialize;
use serde_json::{json, Value};
use std::{collections::BTreeMap, error::Error};

#[derive(Deserialize)]
pub struct Asked {
    pub case: String,
    #[serde(rename = "baseUrl")]
    pub base_url: String,
    pub model: String,
    #[serde(rename = "timeoutMs")]
    pub timeout_ms: u64,
    #[serde(default)]
    pub tools: Vec<Value>,
}

pub struct Failure {
    pub kind: &'static str,
    pub message: String,
    /// Of the client's own kind.
    pub own: bool,
}

impl Failure {
    /// With the errors that it stands for: what reqwest says of itself is little.
    pub fn of(kind: &'static str, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            message.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        Failure { kind, message, own: true }
    }
}

/// What an answer has said so far, and stays what it said where an error ends it.
#[derive(Default)]
pub struct Seen {
    pub text: String,
    pub finish: Option<String>,
    /// Of the prompt, of the answer.
    pub usage: Option<(u64, u64)>,
    calls: BTreeMap<u64, (String, String)>,
}

impl Seen {
    pub fn call(&mut self, index: u64, name: &str, arguments: &str) {
        let known = self.calls.entry(index).or_default();
        // A name that comes again is the same name.
        if known.0 != name {
            known.0.push_str(name);
        }
        known.1.push_str(arguments);
    }

    pub fn line(&self, failure: Option<Failure>) -> String {
        let calls: Vec<Value> =
            self.calls.values().map(|(name, arguments)| json!({ "name": name, "arguments": arguments })).collect();
        json!({
            "text": self.text,
            "finish": self.finish,
            "usage": self.usage.map(|(prompt, completion)| json!({ "prompt": prompt, "completion": completion })),
            "toolCalls": if calls.is_empty() { Value::Null } else { calls.into() },
            "error": failure.map(|one| json!({
                "kind": one.kind,
                "message": one.message.chars().take(300).collect::<String>(),
                "own": one.own,
            })),
        })
        .to_string()
    }
}
