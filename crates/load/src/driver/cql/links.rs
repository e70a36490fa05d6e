//! A user's connections to the nodes of a ring: each request goes to a node that has its row. A connection that is lost is opened
//! again in the background, and until then the row's next node, or any other, is asked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::entry::Entry;
use super::ring::Ring;
use super::route::Route;
use super::session::CqlSession;
use crate::driver::{ErrorClass, Failure, Session, Uncancellable};
use crate::sql::{Sql, SqlAnswer, SqlCommand, SqlRequest};

/// Between attempts to reach a node that is gone.
const PAUSE: Duration = Duration::from_secs(1);
/// A node that leaves so many requests in a row without any answer is taken for gone: its machine cannot say so any more.
const SILENT_MAX: u32 = 2;
/// Longer keys make the buffer grow once.
const KEY_BYTES: usize = 256;

/// One user's way to a cluster.
pub struct RingSession(Way);

enum Way {
    /// To the node of the url.
    Alone(Box<CqlSession>),
    /// To all that have rows.
    Ring(Box<Links>),
}

impl RingSession {
    pub(super) fn alone(session: CqlSession) -> Self {
        Self(Way::Alone(Box::new(session)))
    }

    /// Connects to the nodes of `ring`; `home` is the connection to the node of the url, where there is one already.
    pub(super) async fn open(entry: &Arc<Entry>, ring: &Arc<Ring>, home: Option<CqlSession>) -> Result<Self, Failure> {
        Links::open(entry, ring, home).await.map(|links| Self(Way::Ring(Box::new(links))))
    }

    /// The version of the protocol that is spoken with the node of the url; `None` while it is gone.
    pub fn version(&self) -> Option<u8> {
        match &self.0 {
            Way::Alone(session) => Some(session.version()),
            Way::Ring(links) => match &links.links.first()?.state {
                State::Open(session) => Some(session.version()),
                State::Opening(_) => None,
            },
        }
    }

    /// How many nodes it is connected to.
    pub fn n_nodes(&self) -> usize {
        match &self.0 {
            Way::Alone(session) => usize::from(!session.is_lost()),
            Way::Ring(links) => links.links.iter().filter(|link| link.serves()).count(),
        }
    }
}

impl Session for RingSession {
    type Protocol = Sql;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        match &mut self.0 {
            Way::Alone(session) => session.run(request, answer).await,
            Way::Ring(links) => links.run(request, answer).await,
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        if self.is_lost() { Err(all_lost()) } else { Ok(()) }
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        match &self.0 {
            Way::Alone(session) => session.is_lost(),
            Way::Ring(links) => !links.links.iter().any(Link::serves),
        }
    }

    async fn close(self) {
        match self.0 {
            Way::Alone(session) => session.close().await,
            Way::Ring(links) => {
                for link in links.links {
                    if let State::Open(session) = link.state {
                        session.close().await;
                    }
                }
            }
        }
    }
}

fn all_lost() -> Failure {
    Failure::without_code(ErrorClass::Connect, "the connection is lost")
}

/// See the module.
struct Links {
    /// As the ring counts its nodes.
    links: Vec<Link>,
    /// Of the statements, by their numbers.
    routes: Vec<Option<Route>>,
    key: Vec<u8>,
}

impl Links {
    async fn open(entry: &Arc<Entry>, ring: &Arc<Ring>, mut home: Option<CqlSession>) -> Result<Self, Failure> {
        let door = |node| Door { entry: Arc::clone(entry), ring: Arc::clone(ring), node };
        let opened = join_all((0..ring.nodes.len()).map(|node| {
            let (door, given) = (door(node), if node == 0 { home.take() } else { None });
            async move {
                match given {
                    Some(session) => Ok(session),
                    None if node > 0 && door.ring.rests(node) => Err(all_lost()),
                    None => door.enter().await,
                }
            }
        }))
        .await;
        let known = opened.iter().find_map(|result| result.as_ref().ok());
        let route = |index| Route::of(known?.statement(index)?, ring);
        let routes = (0..entry.statements.len()).map(route).collect();
        if known.is_none() {
            return Err(opened.into_iter().find_map(Result::err).unwrap_or_else(all_lost));
        }
        let links = opened.into_iter().enumerate().map(|(node, result)| Link::new(door(node), result.ok())).collect();
        Ok(Self { links, routes, key: Vec::with_capacity(KEY_BYTES) })
    }

    /// The number of the node that is asked: the first of the row's nodes that serves, or else the first that does.
    fn choose(&mut self, request: &SqlRequest) -> Option<usize> {
        let Self { links, routes, key } = self;
        if let SqlCommand::Prepared(number) = &request.command
            && let Some(Some(route)) = routes.get(*number as usize)
        {
            for node in route.nodes(&request.params, key) {
                let node = usize::from(*node);
                if links[node].is_ready() {
                    return Some(node);
                }
            }
        }
        links.iter_mut().position(Link::is_ready)
    }

    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        let Some(node) = self.choose(request) else { return Err(all_lost()) };
        self.links[node].run(request, answer).await
    }
}

/// How one node is entered.
#[derive(Clone)]
struct Door {
    entry: Arc<Entry>,
    ring: Arc<Ring>,
    node: usize,
}

impl Door {
    async fn enter(&self) -> Result<CqlSession, Failure> {
        let address = &self.ring.nodes[self.node].address;
        let result = self.entry.open_soon(address).await;
        if result.is_err() {
            self.ring.note_refusal(self.node);
        }
        result
    }
}

/// The connection to one node.
struct Link {
    door: Door,
    state: State,
    /// Set while an answer is awaited, so that a future that is dropped leaves it set.
    is_waiting: bool,
    /// Requests in a row that were dropped.
    n_silent: u32,
}

enum State {
    Open(Box<CqlSession>),
    Opening(Opening),
}

impl Link {
    fn new(door: Door, session: Option<CqlSession>) -> Self {
        let state = match session {
            Some(session) => State::Open(Box::new(session)),
            None => State::Opening(Opening::start(door.clone())),
        };
        Self { door, state, is_waiting: false, n_silent: 0 }
    }

    /// Whether a request would find a connection.
    fn serves(&self) -> bool {
        match &self.state {
            State::Open(session) => !session.is_lost(),
            State::Opening(opening) => opening.found.borrow().is_some(),
        }
    }

    /// The same; takes what was opened in the background, and gives up what is silent.
    fn is_ready(&mut self) -> bool {
        if std::mem::take(&mut self.is_waiting) {
            self.n_silent += 1;
        }
        match &self.state {
            State::Open(session) => {
                if session.is_lost() || self.n_silent >= SILENT_MAX {
                    self.give_up();
                    return false;
                }
            }
            State::Opening(opening) => {
                let Some(session) = opening.found.take() else { return false };
                self.state = State::Open(session);
            }
        }
        true
    }

    fn give_up(&mut self) {
        self.n_silent = 0;
        self.state = State::Opening(Opening::start(self.door.clone()));
    }

    /// Only for one that is ready.
    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        let State::Open(session) = &mut self.state else { return Err(all_lost()) };
        self.is_waiting = true;
        let result = session.run(request, answer).await;
        self.is_waiting = false;
        self.n_silent = 0;
        if !session.is_lost() {
            return result;
        }
        self.give_up();
        let Door { ring, node, .. } = &self.door;
        let address = &ring.nodes[*node].address;
        result.map_err(|failure| Failure { message: format!("node {address}: {}", failure.message), ..failure })
    }
}

/// A connection that is being opened in the background; dropping it ends that.
struct Opening {
    found: Rc<RefCell<Option<Box<CqlSession>>>>,
    task: JoinHandle<()>,
}

impl Opening {
    fn start(door: Door) -> Self {
        let found = Rc::<RefCell<Option<Box<CqlSession>>>>::default();
        let place = Rc::clone(&found);
        let task = tokio::task::spawn_local(async move {
            loop {
                sleep(PAUSE).await;
                if let Ok(session) = door.enter().await {
                    *place.borrow_mut() = Some(Box::new(session));
                    return;
                }
            }
        });
        Self { found, task }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.task.abort();
    }
}
