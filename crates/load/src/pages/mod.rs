//! Pages of a site, each with its share: what the users of a simple web workload ask for.

mod path;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use self::path::Path;
use crate::driver::{ErrorClass, Failure};
use crate::http::{Http, HttpAnswer, HttpRequest, Jar, Method, Origin, SUCCESS, redirect};
use crate::random::Random;
use crate::source::{Source, Sources, Step};
use crate::weights::{check_weights, cumulate, pick};

/// A browser gives up after about as many.
const REDIRECTS_MAX: u32 = 10;

/// A page, and what belongs to it.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name in the results.
    pub label: String,
    /// How often it is asked for, relative to the others.
    pub weight: f64,
    /// What is done with it; the resources are read.
    pub method: Method,
    /// Path and query; `{1-1000}` stands for a random number in that range, new each time.
    pub path: String,
    /// Paths that are read after it, one after the other, within the same operation.
    pub resources: Vec<String>,
    /// What is sent, where the method sends something.
    pub body: Vec<u8>,
    /// Header lines, each with its line end.
    pub headers: String,
    /// The status that is a success; without it 200 to 399, redirects followed where users do that.
    pub status: Option<u16>,
    /// Stands in the page, else it is a wrong one.
    pub text: Option<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            label: "/".to_owned(),
            weight: 1.0,
            method: Method::Get,
            path: "/".to_owned(),
            resources: Vec::new(),
            body: Vec::new(),
            headers: String::new(),
            status: None,
            text: None,
        }
    }
}

/// What users do besides asking for pages.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether they go where a redirect leads.
    pub follows: bool,
    /// Whether they keep cookies.
    pub keeps_cookies: bool,
    /// Whether each operation has a connection of its own, and no cookies of earlier ones.
    pub is_fresh: bool,
}

/// The sources of all users.
#[derive(Debug)]
pub struct PageSources(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pages: Vec<Compiled>,
    cumulative: Box<[f64]>,
    manner: Manner,
    origin: Origin,
}

#[derive(Debug)]
struct Compiled {
    page: Page,
    paths: Vec<Path>,
    /// The most redirects that its last path has led along so far.
    n_hops: AtomicU32,
}

impl PageSources {
    /// # Errors
    /// A text naming the page, and what is wrong with it.
    pub fn new(pages: Vec<Page>, manner: Manner, origin: Origin) -> Result<Self, String> {
        if pages.is_empty() {
            return Err("pages: a load needs at least one".to_owned());
        }
        let weights: Vec<f64> = pages.iter().map(|page| page.weight).collect();
        check_weights(&weights).map_err(|text| format!("pages: {text}"))?;
        let pages = pages.into_iter().map(Compiled::new).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Shared { pages, cumulative: cumulate(&weights), manner, origin })))
    }
}

impl Compiled {
    fn new(page: Page) -> Result<Self, String> {
        let all = std::iter::once(&page.path).chain(&page.resources);
        let paths = all.map(|path| Path::parse(path)).collect::<Result<_, _>>();
        let paths = paths.map_err(|text| format!("page {}: {text}", page.label))?;
        if page.text.as_ref().is_some_and(String::is_empty) {
            return Err(format!("page {}: the text that must stand in it is empty", page.label));
        }
        Ok(Self { page, paths, n_hops: AtomicU32::new(0) })
    }
}

impl Sources<Http> for PageSources {
    fn labels(&self) -> Vec<String> {
        self.0.pages.iter().map(|compiled| compiled.page.label.clone()).collect()
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Http>> {
        Box::new(PageSource {
            shared: Arc::clone(&self.0),
            random: Random::of_choices(seed, user),
            start: Random::of_choices(seed, user),
            jar: Jar::default(),
            page: 0,
            next: 0,
            target: String::new(),
            method: Method::Get,
            redirected: None,
            n_redirects: 0,
            failure: None,
        })
    }
}

/// One user.
struct PageSource {
    shared: Arc<Shared>,
    random: Random,
    /// As it was when the operation began.
    start: Random,
    jar: Jar,
    page: usize,
    /// The path of the page that comes next.
    next: usize,
    /// What was asked for last, and what was done with it.
    target: String,
    method: Method,
    /// What is asked for next because a redirect led there.
    redirected: Option<Method>,
    n_redirects: u32,
    failure: Option<Failure>,
}

impl Source<Http> for PageSource {
    fn begin(&mut self) -> Option<u32> {
        self.page = match &self.shared.cumulative[..] {
            [_] => 0,
            cumulative => pick(cumulative, &mut self.random),
        };
        self.start = self.random;
        self.restart();
        Some(self.page as u32)
    }

    fn step(&mut self, request: &mut HttpRequest) -> Step {
        if self.failure.is_some() {
            return Step::Fail;
        }
        let Compiled { page, paths, n_hops } = &self.shared.pages[self.page];
        let is_first = self.next == 0 && self.redirected.is_none();
        let is_page = is_first || (self.next == 1 && self.redirected.is_some());
        self.method = match self.redirected.take() {
            Some(method) => method,
            None => {
                let Some(path) = paths.get(self.next) else { return Step::End };
                path.write(&mut self.random, &mut self.target);
                self.next += 1;
                self.n_redirects = 0;
                if is_first { page.method } else { Method::Get }
            }
        };
        request.method = self.method;
        request.target.clone_from(&self.target);
        request.headers.clone_from(&page.headers);
        request.body.clear();
        if request.method.has_body() {
            request.body.extend_from_slice(&page.body);
        }
        request.status = page.status.filter(|_| is_page).map_or(SUCCESS, |status| (status, status));
        request.keeps_body = is_page && page.text.is_some();
        request.is_fresh = self.shared.manner.is_fresh && is_first;
        // One that waits for the user's next page would keep one of the server's workers busy; where a redirect leads is asked
        // for on the same one.
        let is_at_end = self.next == paths.len() && self.n_redirects >= n_hops.load(Ordering::Relaxed);
        request.is_last = self.shared.manner.is_fresh && is_at_end;
        self.jar.write(&self.target, self.shared.origin.is_encrypted, &mut request.cookies);
        Step::Request
    }

    fn answer(&mut self, answer: &HttpAnswer) {
        let Shared { manner, pages, .. } = &*self.shared;
        if manner.keeps_cookies {
            for cookie in answer.cookies.lines() {
                self.jar.take(cookie, &self.target);
            }
        }
        let page = &pages[self.page].page;
        let is_page = self.next == 1;
        let is_final = is_page && page.status.is_some();
        if answer.is_redirect() && manner.follows && !is_final {
            self.follow(answer);
        } else if is_page
            && let Some(text) = &page.text
            && memchr::memmem::find(&answer.body, text.as_bytes()).is_none()
        {
            let message = format!("{text:?} is not in the page ({} bytes)", answer.n_bytes);
            self.failure = Some(Failure::without_code(ErrorClass::Validation, message));
        }
    }

    fn failure(&mut self) -> Failure {
        self.failure.take().unwrap_or_else(|| Failure::without_code(ErrorClass::Other, "the operation cannot go on"))
    }

    fn rewind(&mut self) {
        self.random = self.start;
        self.restart();
    }
}

impl PageSource {
    fn restart(&mut self) {
        self.next = 0;
        self.redirected = None;
        self.failure = None;
        if self.shared.manner.is_fresh {
            self.jar.clear();
        }
    }

    fn follow(&mut self, answer: &HttpAnswer) {
        let wrong = |message: String| Some(Failure::without_code(ErrorClass::Validation, message));
        self.n_redirects += 1;
        if self.n_redirects > REDIRECTS_MAX {
            self.failure = wrong(format!("more than {REDIRECTS_MAX} redirects, the last to {}", answer.location));
            return;
        }
        let from = std::mem::take(&mut self.target);
        if redirect(&self.shared.origin, &from, &answer.location, &mut self.target) {
            self.redirected = Some(self.method.redirected(answer.status));
            let Compiled { paths, n_hops, .. } = &self.shared.pages[self.page];
            if self.next == paths.len() {
                n_hops.fetch_max(self.n_redirects, Ordering::Relaxed);
            }
        } else {
            self.failure =
                wrong(format!("status {} leads to {:?}, which is not this site", answer.status, answer.location));
        }
    }
}

#[cfg(test)]
mod tests;
