//! Browsers against a site that exists in a test only.

mod pages;
mod values;
mod visits;
mod walks;

use super::*;
use crate::http::{HttpAnswer, HttpRequest, Method};
use crate::source::Step;

fn text(text: &str) -> Vec<Piece> {
    vec![Piece::Text(text.to_owned())]
}

fn ask(path: Vec<Piece>) -> Ask {
    Ask {
        share: 1.0,
        when: None,
        after: Vec::new(),
        method: Method::Get,
        path,
        pairs: Vec::new(),
        sends_hidden: false,
        needs: Vec::new(),
    }
}

fn state(label: &str, asks: Vec<Ask>) -> State {
    State {
        label: label.to_owned(),
        asks,
        contains: Vec::new(),
        nothing: Vec::new(),
        picks: Vec::new(),
        reads_images: true,
        images: Vec::new(),
        wait_s: 0.0,
    }
}

fn value(kind: Kind) -> Value {
    Value { kind, chance: 1.0, is_of_session: false, finds: Vec::new(), none: None }
}

fn number(low: i64, high: i64) -> Kind {
    Kind::Number { low: Bound::Number(low), high: Bound::Number(high), skew: 0, plus: None, width: 0 }
}

fn one_of(texts: &[(&str, f64)]) -> Kind {
    Kind::OneOf(texts.iter().map(|&(text, weight)| (text.to_owned(), weight)).collect())
}

const SESSION: Session = Session { start: 0, steps_max: 1_000, lasts: None };
const THINK: Think = Think { exponential_s: Some((7.0, 70.0)), scale: 1.0 };

fn chain(rows: Vec<Vec<(Move, f64)>>) -> Chain {
    Chain::new(rows, Reading::Normalised).expect("a legal table")
}

/// States that follow one another in a ring, with these values.
fn ring(states: Vec<State>, values: Vec<Value>) -> Site {
    let n = states.len() as u16;
    let rows = (0..n).map(|state| vec![(Move::To((state + 1) % n), 1.0)]).collect();
    Site {
        states,
        chain: chain(rows),
        session: SESSION,
        values,
        think: THINK,
        always: Vec::new(),
        errors: Vec::new(),
        counts_sessions: false,
    }
}

fn origin() -> Origin {
    Origin { is_encrypted: false, host: "shop".to_owned(), port: 80 }
}

fn browser(site: Site) -> Box<dyn Source<Http>> {
    SiteSources::new(site, origin()).expect("a legal site").source(0, 1)
}

fn ok(body: &str) -> HttpAnswer {
    HttpAnswer { status: 200, body: body.as_bytes().to_vec(), n_bytes: body.len() as u64, ..HttpAnswer::default() }
}

/// What is asked in one interaction, and how it ends; `site` answers.
fn interact(source: &mut dyn Source<Http>, mut site: impl FnMut(&HttpRequest) -> HttpAnswer) -> (Vec<String>, String) {
    source.begin().expect("endless");
    let (mut request, mut lines) = (HttpRequest::default(), Vec::new());
    for _ in 0..1_000 {
        match source.step(&mut request) {
            Step::Request => {
                let fresh = if request.is_fresh { "fresh " } else { "" };
                let body = String::from_utf8(request.body.clone()).expect("text");
                let more = [&body, &request.cookies]
                    .map(|text| if text.is_empty() { String::new() } else { format!(" {text}") });
                lines.push(format!("{fresh}{} {}{}{}", request.method.name(), request.target, more[0], more[1]));
                source.answer(&site(&request));
            }
            Step::Fail => {
                let failure = source.failure();
                source.end(false);
                let code = failure.code.map_or(String::new(), |code| format!("{code} "));
                let word = failure.word.map_or(String::new(), |word| format!("[{word}]"));
                return (lines, format!("{:?}{word} {code}{}", failure.class, failure.message));
            }
            step => {
                source.end(true);
                return (lines, format!("{step:?}"));
            }
        }
    }
    panic!("it never ends: {lines:?}");
}
