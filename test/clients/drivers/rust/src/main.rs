//! async-openai and reqwest-eventsource as clients of `understudy stress` that stay alive (understudy-client/1): which one,
//! says the first argument.
mod async_openai_client;
mod eventsource_client;
mod seen;

use seen::{Asked, Failure, Seen};
use std::{env, io};

// Connections have a thread of their own: they see what comes while the next case is waited for.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let name = env::args().nth(1).expect("the client's name");
    let mut official = async_openai_client::Client::default();
    let mut events = eventsource_client::Client::default();
    for line in io::stdin().lines() {
        let asked: Asked = serde_json::from_str(&line.expect("a line")).expect("a case");
        let mut seen = Seen::default();
        let ended: Result<(), Failure> = match name.as_str() {
            "async-openai" => official.ask(&asked, &mut seen).await,
            "reqwest-eventsource" => events.ask(&asked, &mut seen).await,
            _ => panic!("no client {name}"),
        };
        println!("{}", seen.line(ended.err()));
    }
}
