//! One browser: interactions one after the other, each a page with its redirects and images.

use std::sync::Arc;
use std::time::Duration;

use super::hidden::Hidden;
use super::page::Tags;
use super::site::{Asked, Compiled, Judgement, Pen};
use super::texts::Texts;
use super::value::Memory;
use super::walk::{Turn, Walk};
use crate::driver::{ErrorClass, Failure};
use crate::http::{Http, HttpAnswer, HttpRequest, Jar, Method, Origin, SUCCESS, redirect};
use crate::random::Random;
use crate::source::{Source, Step};

/// A browser gives up after about as many.
const REDIRECTS_MAX: u32 = 10;

/// Who cannot go where he wants goes elsewhere; who finds no way after so many draws goes back.
const DRAWS_MAX: u32 = 50;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// What the browsers of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) compiled: Compiled,
    pub(super) origin: Origin,
    /// What the addresses of its pages begin with.
    pub(super) address: String,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Visitor {
    shared: Arc<Shared>,
    walk: Walk<Asked>,
    memory: Memory,
    choices: Random,
    pauses: Random,
    jar: Jar,
    /// The page of this interaction.
    asked: Asked,
    hidden: Hidden,
    /// The page that was read last in this session.
    before: String,
    images: Texts,
    scratch: [String; 3],
    /// What is sent now, or where a redirect led.
    target: String,
    stage: Stage,
    n_redirects: u32,
    is_first: bool,
    is_new: bool,
    has_nothing: bool,
    failure: Option<Failure>,
}

/// What comes next within an interaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Page,
    /// The page, where a redirect led.
    Redirected(Method),
    /// The image with this number.
    Image(usize),
    /// It again, where a redirect led.
    RedirectedImage(usize),
}

impl Visitor {
    pub(super) fn new(shared: Arc<Shared>, seed: u64, user: u32) -> Self {
        let mut choices = Random::of_choices(seed, user);
        let mut visitor = Self {
            walk: Walk::new(&shared.compiled.site.session, &mut choices),
            memory: Memory::new(&shared.compiled.values),
            shared,
            choices,
            pauses: Random::of_thoughts(seed, user),
            jar: Jar::default(),
            asked: Asked::default(),
            hidden: Hidden::default(),
            before: String::new(),
            images: Texts::default(),
            scratch: Default::default(),
            target: String::new(),
            stage: Stage::Page,
            n_redirects: 0,
            is_first: true,
            is_new: true,
            has_nothing: false,
            failure: None,
        };
        visitor.write(Turn::New);
        visitor
    }

    /// Decides where to go, and puts the request together.
    fn turn(&mut self, is_ok: bool) {
        let Self { shared, walk, choices, asked, .. } = self;
        let site = &shared.compiled.site;
        let turn = if !is_ok {
            walk.begin(&site.session, choices);
            Turn::New
        } else if self.has_nothing && site.chain.leads_back(walk.at) {
            walk.back(&site.session, choices, asked)
        } else {
            walk.next(&site.chain, &site.session, choices, asked)
        };
        self.has_nothing = false;
        self.memory.turn();
        self.write(turn);
    }

    fn write(&mut self, turn: Turn) {
        let (mut turn, mut n_draws) = (turn, 0);
        loop {
            self.is_new = turn == Turn::New;
            if self.is_new {
                self.memory.forget();
                self.jar.clear();
                self.hidden.clear();
                self.before.clear();
            }
            let Self { shared, walk, memory, choices, asked, hidden, .. } = self;
            let compiled = &shared.compiled;
            let mut pen = Pen { memory, random: choices, hidden, from: walk.before() };
            if turn == Turn::Again || compiled.write(walk.at, &mut pen, asked) {
                break;
            }
            if self.is_new {
                let label = &compiled.site.states[usize::from(walk.at)].label;
                let message = format!("{label}: what its request is made of is nowhere to be found");
                self.failure = Some(Failure::without_code(ErrorClass::Other, message));
                break;
            }
            let site = &compiled.site;
            // The page at hand was left for one that it does not lead to.
            walk.stay(asked);
            n_draws += 1;
            turn = if n_draws > DRAWS_MAX {
                walk.back(&site.session, choices, asked)
            } else {
                walk.next(&site.chain, &site.session, choices, asked)
            };
        }
        self.restart();
    }

    fn restart(&mut self) {
        self.stage = Stage::Page;
        self.n_redirects = 0;
        self.images.clear();
        self.target.clone_from(&self.asked.target);
    }

    fn follow(&mut self, answer: &HttpAnswer) {
        self.n_redirects += 1;
        let image =
            if let Stage::Image(number) | Stage::RedirectedImage(number) = self.stage { Some(number) } else { None };
        let from = &mut self.scratch[0];
        std::mem::swap(from, &mut self.target);
        let is_here = redirect(&self.shared.origin, from, &answer.location, &mut self.target);
        if let Some(number) = image {
            // What another site has is not asked of this one.
            let is_asked = is_here && self.n_redirects <= REDIRECTS_MAX;
            self.stage = if is_asked { Stage::RedirectedImage(number) } else { Stage::Image(number + 1) };
        } else if self.n_redirects > REDIRECTS_MAX {
            self.refuse(format!("more than {REDIRECTS_MAX} redirects, the last to {}", answer.location));
        } else if is_here {
            // A page that was reached by reading is read on, whatever the interaction has begun with.
            let method = if let Stage::Redirected(method) = self.stage { method } else { self.asked.method };
            self.stage = Stage::Redirected(method.redirected(answer.status));
        } else {
            self.refuse(format!("status {} leads to {:?}, which is not this site", answer.status, answer.location));
        }
    }

    fn refuse(&mut self, message: String) {
        self.failure = Some(Failure::without_code(ErrorClass::Validation, message));
    }

    /// The page is here.
    fn read(&mut self, answer: &HttpAnswer) {
        let shared = Arc::clone(&self.shared);
        match shared.compiled.judge(self.walk.at, answer.status, &answer.body) {
            Judgement::Right => self.learn(&shared.compiled, answer),
            Judgement::Nothing => {
                self.has_nothing = true;
                self.learn_tags(&shared.compiled, answer);
            }
            Judgement::Lacks(text) => self.refuse(format!("{text:?} is not in the page ({} bytes)", answer.n_bytes)),
            Judgement::Failed(class) => {
                let path = self.asked.target.split('?').next().unwrap_or("/");
                let (code, word) = (answer.status.to_string(), shared.compiled.word(&answer.body));
                let gap = if word.is_empty() { "" } else { " " };
                let message = format!("{word}{gap}for {} {path}", self.asked.method.name());
                let word = (!word.is_empty() && class != ErrorClass::Validation).then(|| word.into());
                self.failure = Some(Failure { class, code: Some(code), message, word });
            }
        }
        self.before.clone_from(&self.target);
        self.stage = Stage::Image(0);
    }

    fn learn(&mut self, compiled: &Compiled, answer: &HttpAnswer) {
        for &value in &compiled.site.states[usize::from(self.walk.at)].picks {
            self.memory.learn(&compiled.values, value, &answer.body);
        }
        self.learn_tags(compiled, answer);
    }

    fn learn_tags(&mut self, compiled: &Compiled, answer: &HttpAnswer) {
        let state = &compiled.site.states[usize::from(self.walk.at)];
        self.hidden.clear();
        for image in &state.images {
            self.images.push(image);
        }
        let mut tags = Tags {
            origin: &self.shared.origin,
            target: &self.target,
            images: state.reads_images.then_some(&mut self.images),
            hidden: compiled.reads_hidden.then_some(&mut self.hidden),
            scratch: &mut self.scratch,
        };
        tags.read(&answer.body);
    }
}

impl Source<Http> for Visitor {
    fn begin(&mut self) -> Option<u32> {
        Some(u32::from(self.walk.at))
    }

    fn step(&mut self, request: &mut HttpRequest) -> Step {
        if self.failure.is_some() {
            return Step::Fail;
        }
        let method = match self.stage {
            Stage::Page => self.asked.method,
            Stage::Redirected(method) => method,
            Stage::Image(number) => {
                let Some(image) = self.images.get(number) else { return Step::End };
                self.target.clear();
                self.target.push_str(image);
                self.n_redirects = 0;
                Method::Get
            }
            Stage::RedirectedImage(_) => Method::Get,
        };
        let is_page = matches!(self.stage, Stage::Page | Stage::Redirected(_));
        request.method = method;
        request.target.clone_from(&self.target);
        request.headers.clear();
        request.body.clear();
        if method.has_body() {
            request.headers.push_str(FORM);
            // Some frameworks take a form over TLS only with the page in which it stood.
            if !self.before.is_empty() {
                for part in ["Referer: ", &self.shared.address, &self.before, "\r\n"] {
                    request.headers.push_str(part);
                }
            }
            request.body.extend_from_slice(self.asked.form.as_bytes());
        }
        // What a page says with another status is read too.
        request.status = if is_page { (100, 599) } else { SUCCESS };
        request.keeps_body = is_page;
        request.is_fresh = self.stage == Stage::Page && self.is_new && !self.is_first;
        request.is_last = false;
        self.jar.write(&self.target, self.shared.origin.is_encrypted, &mut request.cookies);
        Step::Request
    }

    fn answer(&mut self, answer: &HttpAnswer) {
        for cookie in answer.cookies.lines() {
            self.jar.take(cookie, &self.target);
        }
        if answer.is_redirect() {
            return self.follow(answer);
        }
        match self.stage {
            Stage::Page | Stage::Redirected(_) => self.read(answer),
            Stage::Image(number) | Stage::RedirectedImage(number) => self.stage = Stage::Image(number + 1),
        }
    }

    fn failure(&mut self) -> Failure {
        self.failure.take().unwrap_or_else(|| Failure::without_code(ErrorClass::Other, "the interaction cannot go on"))
    }

    fn rewind(&mut self) {
        self.failure = None;
        self.restart();
    }

    fn end(&mut self, is_ok: bool) {
        self.is_first = false;
        self.failure = None;
        self.turn(is_ok);
    }

    fn think(&mut self) -> Duration {
        let think = &self.shared.compiled.site.think;
        let time_s = think.draw(&self.shared.compiled.site.states[usize::from(self.walk.at)], &mut self.pauses);
        self.walk.spend(time_s);
        Duration::try_from_secs_f64(time_s * think.scale).unwrap_or(Duration::MAX)
    }

    fn is_engaged(&self) -> bool {
        self.shared.compiled.site.counts_sessions && !self.is_new
    }
}
