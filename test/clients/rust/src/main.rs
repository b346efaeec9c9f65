//! async-openai: chat, a stream, its errors, a stream that is left.
use async_openai::{
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{
        ChatCompletionRequestUserMessageArgs, ChatCompletionStreamOptions, CompletionUsage, CreateChatCompletionRequest,
        CreateChatCompletionRequestArgs,
    },
    Client,
};
use futures::StreamExt;
use std::{env, time::Duration};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MODEL: &str = "m";
const ABORTS: &str = "understudy_requests_total{outcome=\"abort\"}";

struct Checks {
    url: String,
    client: Client<OpenAIConfig>,
}

fn hello(tokens: u32) -> Result<CreateChatCompletionRequest> {
    let message = ChatCompletionRequestUserMessageArgs::default().content("Hello, who are you?").build()?;
    let mut request = CreateChatCompletionRequestArgs::default();
    #[allow(deprecated)]
    request.model(MODEL).messages([message.into()]).max_tokens(tokens).seed(1);
    Ok(request.build()?)
}

impl Checks {
    /// One sample of the server's own page.
    async fn sample(&self, series: &str) -> Result<f64> {
        let page = reqwest::get(format!("{}/metrics", self.url)).await?.text().await?;
        let line = page.lines().find(|line| line.starts_with(series)).ok_or(format!("no {series}"))?;
        Ok(line.rsplit(' ').next().unwrap_or("").parse()?)
    }

    /// The stream's text, and its last usage.
    async fn streamed(&self, request: CreateChatCompletionRequest) -> Result<(String, Option<CompletionUsage>)> {
        let mut stream = self.client.chat().create_stream(request).await?;
        let (mut text, mut usage) = (String::new(), None);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            usage = chunk.usage.or(usage);
            for choice in chunk.choices {
                text.push_str(&choice.delta.content.unwrap_or_default());
            }
        }
        Ok((text, usage))
    }

    async fn results(&self) -> Result<()> {
        let whole = self.client.chat().create(hello(20)?).await?;
        let said = whole.choices[0].message.content.clone().unwrap_or_default();
        let (text, _) = self.streamed(hello(20)?).await?;
        if said.is_empty() || said != text {
            return Err(format!("whole {said:?}, streamed {text:?}").into());
        }
        Ok(())
    }

    async fn usage(&self) -> Result<()> {
        let mut request = hello(9)?;
        request.stream_options =
            Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
        let used = self.streamed(request).await?.1.ok_or("no usage")?;
        let adds_up = used.total_tokens == used.prompt_tokens + used.completion_tokens;
        if !(1..=9).contains(&used.completion_tokens) || !adds_up {
            return Err(format!("usage {used:?}").into());
        }
        Ok(())
    }

    /// The crate takes `code` for a text, where vLLM has a number: its error is that of reading, with the body in it.
    async fn errors(&self) -> Result<()> {
        let mut nobody = hello(5)?;
        nobody.model = "nobody".into();
        let mut wrong = hello(5)?;
        wrong.top_p = Some(3.0);
        for (request, kind) in [(nobody, "NotFoundError"), (wrong, "top_p")] {
            match self.client.chat().create(request).await {
                Err(OpenAIError::JSONDeserialize(_, body)) if body.contains(kind) => {}
                other => return Err(format!("{kind}: {other:?}").into()),
            }
        }
        Ok(())
    }

    /// What the client leaves must end on the server: nothing runs any more, and one abort more is counted.
    async fn aborts(&self) -> Result<()> {
        let before = self.sample(ABORTS).await?;
        let mut stream = self.client.chat().create_stream(hello(5000)?).await?;
        for _ in 0..3 {
            stream.next().await.ok_or("the stream ended")??;
        }
        drop(stream);
        for _ in 0..300 {
            let running = self.sample("vllm:num_requests_running").await?;
            if running == 0.0 && self.sample(ABORTS).await? == before + 1.0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("the request goes on".into())
    }
}

fn told(name: &str, result: Result<()>) {
    let mut line = serde_json::json!({ "check": name });
    if let Err(error) = result {
        line["error"] = error.to_string().into();
    }
    println!("{line}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = env::args().nth(1).expect("the server's URL");
    let config = OpenAIConfig::new().with_api_base(format!("{url}/v1")).with_api_key("none");
    let checks = Checks { client: Client::with_config(config), url };
    told("results", checks.results().await);
    told("usage", checks.usage().await);
    told("errors", checks.errors().await);
    told("aborts", checks.aborts().await);
}
