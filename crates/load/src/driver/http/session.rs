//! One user's connection: a request out, its answer in, and a new connection when the server has closed the old one.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use super::access::Site;
use super::body::{self, Sink};
use super::encode::encode;
use super::head::{self, Head};
use crate::driver::channel::Channel;
use crate::driver::inbox::{Inbox, send_all};
use crate::driver::{ErrorClass, Failure, Session, Uncancellable};
use crate::http::{Http, HttpAnswer, HttpRequest};

/// So many announcements may come before an answer.
const ANNOUNCEMENTS_MAX: u32 = 64;

/// One user's connection to a site.
pub struct HttpSession {
    site: Arc<Site>,
    /// The connection while nothing is asked over it: a request that is dropped takes it along.
    stream: Option<Channel>,
    inbox: Inbox,
    out: Vec<u8>,
    is_lost: bool,
}

/// Why there is no answer.
enum Broken {
    /// The connection ended before a byte of it came.
    Closed(io::Error),
    Failed(Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl HttpSession {
    pub(super) fn new(site: Arc<Site>) -> Self {
        Self { site, stream: None, inbox: Inbox::new(), out: Vec::new(), is_lost: false }
    }

    /// Opens a connection in place of the one at hand.
    pub(super) async fn open(&mut self) -> Result<(), Failure> {
        self.stream = Some(self.fresh().await?);
        Ok(())
    }

    async fn fresh(&mut self) -> Result<Channel, Failure> {
        self.stream = None;
        self.inbox.clear();
        let opened = self.site.open().await;
        self.is_lost = opened.is_err();
        opened
    }

    /// The connection at hand, if the server has not closed it meanwhile; what it sent unasked is no answer to anything.
    async fn kept(&mut self) -> Option<Channel> {
        let mut stream = self.stream.take().filter(|_| self.inbox.len() == 0)?;
        let is_quiet = poll_fn(|cx| {
            let mut bytes = [0; 1];
            let mut buf = ReadBuf::new(&mut bytes);
            Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut buf).is_pending())
        });
        is_quiet.await.then_some(stream)
    }

    /// Sends the request that was encoded and reads its answer; whether the connection may be used again.
    async fn exchange(
        &mut self,
        stream: &mut Channel,
        request: &HttpRequest,
        answer: &mut HttpAnswer,
    ) -> Result<bool, Broken> {
        answer.clear();
        // A server that refuses a long request answers and closes: its answer says more than that nothing can be sent.
        let sent = send_all(stream, &self.out).await;
        let Head { framing, keeps_alive } = self.head(stream, request, answer, sent).await?;
        let mut sink = Sink { kept: request.keeps_body.then_some(&mut answer.body), n_bytes: 0 };
        let read = body::read(framing, &mut self.inbox, stream, &mut sink).await;
        answer.n_bytes = sink.n_bytes;
        read?;
        Ok(keeps_alive)
    }

    async fn head(
        &mut self,
        stream: &mut Channel,
        request: &HttpRequest,
        answer: &mut HttpAnswer,
        sent: io::Result<()>,
    ) -> Result<Head, Broken> {
        let (mut sent, mut n_announced, mut has_begun) = (sent, 0, false);
        loop {
            while let Some(n_bytes) = head::length(self.inbox.arrived()) {
                let head = head::read(&self.inbox.arrived()[..n_bytes], request.method, answer)
                    .map_err(|reason| Failure::protocol(format!("an answer that is no HTTP: {reason}")))?;
                self.inbox.start += n_bytes;
                if let Some(head) = head {
                    return Ok(head);
                }
                n_announced += 1;
                if n_announced > ANNOUNCEMENTS_MAX {
                    return Err(Failure::protocol("announcements without an answer").into());
                }
            }
            if self.inbox.len() > head::BYTES_MAX {
                return Err(Failure::protocol("an answer that is no HTTP: its head does not end").into());
            }
            if let Err(error) = self.inbox.fill(stream).await {
                let error = std::mem::replace(&mut sent, Ok(())).err().unwrap_or(error);
                return Err(match has_begun {
                    true => Failure::lost("the connection was lost within an answer", &error).into(),
                    false => Broken::Closed(error),
                });
            }
            has_begun = true;
        }
    }
}

impl Session for HttpSession {
    type Protocol = Http;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &HttpRequest, answer: &mut HttpAnswer) -> Result<u64, Failure> {
        if self.is_lost {
            return Err(Failure::without_code(ErrorClass::Connect, "the connection is lost"));
        }
        encode(request, &self.site.headers, &mut self.out)?;
        if request.is_fresh {
            self.stream = None;
        }
        let kept = self.kept().await;
        let mut may_be_stale = kept.is_some() && request.method.is_idempotent();
        let mut stream = match kept {
            Some(stream) => stream,
            None => self.fresh().await?,
        };
        loop {
            match self.exchange(&mut stream, request, answer).await {
                Ok(keeps_alive) => {
                    self.stream = (keeps_alive && !request.is_last).then_some(stream);
                    return judge(request, answer);
                }
                // The server closed it while the request was on its way, as it may.
                Err(Broken::Closed(_)) if may_be_stale => {
                    may_be_stale = false;
                    stream = self.fresh().await?;
                }
                Err(broken) => {
                    let failure = match broken {
                        Broken::Closed(error) => Failure::lost("no answer", &error),
                        Broken::Failed(failure) => failure,
                    };
                    // A server that accepts and then drops is not to be hammered.
                    self.is_lost = failure.class == ErrorClass::Connect;
                    return Err(failure);
                }
            }
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(self) {
        if let Some(mut stream) = self.stream {
            // Who leaves does not care whether that was heard.
            let _ = stream.shutdown().await;
        }
    }
}

/// One page, if its status is one that was asked for.
fn judge(request: &HttpRequest, answer: &HttpAnswer) -> Result<u64, Failure> {
    let (low, high) = request.status;
    if (low..=high).contains(&answer.status) {
        return Ok(1);
    }
    let class = match answer.status {
        400..=499 => ErrorClass::Http4xx,
        500..=599 => ErrorClass::Http5xx,
        _ => ErrorClass::Validation,
    };
    // Without its query, which may hold what is nobody's business.
    let path = request.target.split('?').next().unwrap_or("/");
    let message = format!("for {} {path}", request.method.name());
    Err(Failure { class, code: Some(answer.status.to_string()), message, word: None })
}
