//! async-openai: its stream. It has no timeout of its own: the HTTP client that it is given has.
use crate::seen::{Asked, Failure, Seen};
use async_openai::{
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{ChatCompletionTools, CreateChatCompletionRequest, CreateChatCompletionStreamResponse},
};
use futures::StreamExt;
use serde_json::json;
use std::time::Duration;

#[derive(Default)]
pub struct Client {
    /// Of a case that comes again, so that its connections stay.
    last: Option<(String, async_openai::Client<OpenAIConfig>)>,
}

impl Client {
    pub async fn ask(&mut self, asked: &Asked, seen: &mut Seen) -> Result<(), Failure> {
        self.stream(asked, seen).await.map_err(|error| Failure::of("async_openai::error::OpenAIError", &error))
    }

    async fn stream(&mut self, asked: &Asked, seen: &mut Seen) -> Result<(), OpenAIError> {
        let client = match self.last.take() {
            Some((case, client)) if case == asked.case => client,
            _ => client_for(asked)?,
        };
        self.last = Some((asked.case.clone(), client.clone()));
        let mut stream = client.chat().create_stream(request_for(asked)).await?;
        while let Some(chunk) = stream.next().await {
            take(chunk?, seen);
        }
        Ok(())
    }
}

fn client_for(asked: &Asked) -> Result<async_openai::Client<OpenAIConfig>, OpenAIError> {
    let http = reqwest::Client::builder().read_timeout(Duration::from_millis(asked.timeout_ms)).build()?;
    let config = OpenAIConfig::new().with_api_base(&asked.base_url).with_api_key("none");
    Ok(async_openai::Client::with_config(config).with_http_client(http))
}

fn request_for(asked: &Asked) -> CreateChatCompletionRequest {
    let mut request: CreateChatCompletionRequest = serde_json::from_value(json!({
        "model": asked.model,
        "messages": [{ "role": "user", "content": "Say it" }],
        "stream_options": { "include_usage": true },
    }))
    .expect("a request");
    let tools: Vec<ChatCompletionTools> =
        asked.tools.iter().map(|tool| serde_json::from_value(tool.clone()).expect("a tool")).collect();
    request.tools = (!tools.is_empty()).then_some(tools);
    request
}

fn take(chunk: CreateChatCompletionStreamResponse, seen: &mut Seen) {
    if let Some(usage) = chunk.usage {
        seen.usage = Some((usage.prompt_tokens.into(), usage.completion_tokens.into()));
    }
    for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
        seen.text.push_str(&choice.delta.content.unwrap_or_default());
        for call in choice.delta.tool_calls.unwrap_or_default() {
            let function = call.function.unwrap_or_default();
            seen.call(
                call.index.into(),
                &function.name.unwrap_or_default(),
                &function.arguments.unwrap_or_default(),
            );
        }
        if let Some(reason) = choice.finish_reason {
            seen.finish = serde_json::to_value(reason).ok().and_then(|text| Some(text.as_str()?.to_owned()));
        }
    }
}
