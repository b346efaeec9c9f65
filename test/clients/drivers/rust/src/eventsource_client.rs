//! reqwest-eventsource: what a user of it writes, by its documentation, which closes the source at an error: otherwise it
//! asks again for ever. The chunks are read as OpenAI's reference has them.
use crate::seen::{Asked, Failure, Seen};
use futures::StreamExt;
use reqwest_eventsource::{Event, EventSource};
use serde_json::{json, Value};
use std::time::Duration;

#[derive(Default)]
pub struct Client {
    /// Of a case that comes again, so that its connections stay.
    last: Option<(String, reqwest_12::Client)>,
}

impl Client {
    pub async fn ask(&mut self, asked: &Asked, seen: &mut Seen) -> Result<(), Failure> {
        let http = match self.last.take() {
            Some((case, http)) if case == asked.case => http,
            _ => client_for(asked).map_err(|error| Failure::of("reqwest::Error", &error))?,
        };
        self.last = Some((asked.case.clone(), http.clone()));
        let mut body = json!({
            "model": asked.model,
            "messages": [{ "role": "user", "content": "Say it" }],
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if !asked.tools.is_empty() {
            body["tools"] = asked.tools.clone().into();
        }
        let request = http.post(format!("{}/chat/completions", asked.base_url)).json(&body);
        let mut source =
            EventSource::new(request).map_err(|error| Failure::of("CannotCloneRequestError", &error))?;
        let ended = read(&mut source, seen).await;
        source.close();
        ended
    }
}

fn client_for(asked: &Asked) -> reqwest_12::Result<reqwest_12::Client> {
    reqwest_12::Client::builder().read_timeout(Duration::from_millis(asked.timeout_ms)).build()
}

async fn read(source: &mut EventSource, seen: &mut Seen) -> Result<(), Failure> {
    while let Some(event) = source.next().await {
        let message = match event.map_err(|error| Failure::of("reqwest_eventsource::Error", &error))? {
            Event::Open => continue,
            Event::Message(message) => message,
        };
        if message.data == "[DONE]" {
            break;
        }
        let chunk: Value =
            serde_json::from_str(&message.data).map_err(|error| Failure::of("serde_json::Error", &error))?;
        if message.event == "error" || chunk.get("error").is_some() {
            return Err(Failure { kind: "the user's own", message: message.data, own: true });
        }
        take(&chunk, seen);
    }
    match seen.finish {
        Some(_) => Ok(()),
        None => Err(Failure { kind: "the user's own", message: "no finish reason".to_owned(), own: true }),
    }
}

fn take(chunk: &Value, seen: &mut Seen) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arguments = |value: &Value| if value.is_object() { value.to_string() } else { text(value) };
    if let (Some(prompt), Some(completion)) =
        (chunk["usage"]["prompt_tokens"].as_u64(), chunk["usage"]["completion_tokens"].as_u64())
    {
        seen.usage = Some((prompt, completion));
    }
    for choice in chunk["choices"].as_array().into_iter().flatten() {
        if choice["index"].as_u64().unwrap_or(0) != 0 {
            continue;
        }
        let delta = &choice["delta"];
        seen.text.push_str(&text(&delta["content"]));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            seen.call(call["index"].as_u64().unwrap_or(0), &text(&function["name"]), &arguments(&function["arguments"]));
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            seen.finish = Some(reason.to_owned());
        }
    }
}
