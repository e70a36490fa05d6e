//! What the engine itself costs per operation: a driver without a server answers at once, or after one turn of the
//! runtime, as a socket would.
//!
//! Arguments: users, seconds, and for an open loop the rate. Prints operations per second and client CPU per operation,
//! for an open loop also the generator's lateness.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use trimtab_load::driver::{Driver, Failure, Session, Uncancellable};
use trimtab_load::engine::{Limits, Load, Plan, Share};
use trimtab_load::log::What;
use trimtab_load::model::{Arrivals, Model, Open, Profile, Think};
use trimtab_load::protocol::Protocol;
use trimtab_load::source::{Source, Sources, Step};

/// Answers every request.
#[derive(Clone)]
struct Echo {
    turns: u32,
}

struct EchoSession {
    turns: u32,
}

enum Counted {}

impl Protocol for Counted {
    type Request = u64;
    type Answer = ();
}

impl Driver for Echo {
    type Protocol = Counted;
    type Session = EchoSession;

    async fn connect(&self) -> Result<EchoSession, Failure> {
        Ok(EchoSession { turns: self.turns })
    }
}

impl Session for EchoSession {
    type Protocol = Counted;
    type Canceller = Uncancellable;

    async fn run(&mut self, _: &u64, _: &mut ()) -> Result<u64, Failure> {
        for _ in 0..self.turns {
            yield_now().await;
        }
        Ok(1)
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        false
    }

    async fn close(self) {}
}

struct Numbers;

struct Counter {
    n: u64,
    is_sent: bool,
}

impl Sources<Counted> for Numbers {
    fn labels(&self) -> Vec<String> {
        vec!["number".to_owned()]
    }

    fn source(&self, _: u32, _: u64) -> Box<dyn Source<Counted>> {
        Box::new(Counter { n: 0, is_sent: false })
    }
}

impl Source<Counted> for Counter {
    fn begin(&mut self) -> Option<u32> {
        self.is_sent = false;
        Some(0)
    }

    fn step(&mut self, request: &mut u64) -> Step {
        if self.is_sent {
            return Step::End;
        }
        self.n += 1;
        *request = self.n;
        self.is_sent = true;
        Step::Request
    }

    fn rewind(&mut self) {
        self.is_sent = false;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (users, seconds) = match arguments.as_slice() {
        [users, seconds, ..] => (users.parse()?, seconds.parse()?),
        _ => return Err("arguments: users seconds [rate]".into()),
    };
    let model = match arguments.get(2) {
        None => Model::Closed(Think::default()),
        Some(rate) => Model::Open(Open {
            rate: rate.parse()?,
            arrivals: Arrivals::Poisson,
            profile: Profile::Constant,
            backlog_max: 10_000,
            backlog_age_max: Duration::from_secs(10),
        }),
    };
    for turns in [0, 1] {
        measure(model.clone(), users, Duration::from_secs(seconds), turns)?;
    }
    Ok(())
}

fn measure(model: Model, n_users: u32, duration: Duration, turns: u32) -> Result<(), Box<dyn Error>> {
    let second = Duration::from_secs(1);
    let limits = Limits { duration, operation_timeout: 10 * second, connect_timeout: second, cancel_grace: second };
    let is_open = model.is_open();
    let plan = Plan { model, n_users, limits, seed: 1, keeps_rows: false, max_tries: 1 };
    let load = Load::launch(&Echo { turns }, Arc::new(Numbers), &plan, Share::whole(1, plan.n_users))?;
    while !load.wait_connected(second)? {}
    while load.next_frame(2 * duration).is_some() {}
    let log = load.stop()?;
    let n_ok: u64 = log.seconds.iter().map(|second| second.n_ok).sum();
    println!(
        "turns {turns}: {:.0} operations/s, {:.3} us CPU per operation, {} kB of buffers",
        n_ok as f64 / log.duration_s,
        log.client_cpu_s * 1e6 / n_ok as f64,
        log.memory_bytes / 1_000,
    );
    if is_open {
        let mut lateness = log.buckets(What::Lateness);
        lateness.sort_by(|a, b| a.value.total_cmp(&b.value));
        let n: u64 = lateness.iter().map(|bucket| bucket.count).sum();
        let mut n_below = 0;
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
            let rank = (share * n as f64).ceil() as u64;
            while let Some(bucket) = lateness.first().filter(|bucket| n_below + bucket.count < rank) {
                n_below += bucket.count;
                lateness.remove(0);
            }
            print!("lateness {name} {:.3} us  ", lateness.first().map_or(0.0, |bucket| bucket.value));
        }
        println!();
    }
    Ok(())
}
