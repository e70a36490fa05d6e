//! A browser in full swing allocates nothing, whatever the page has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trimtab_load::browser::{
    Ask, Bound, Chain, Find, Kind, Move, Pair, Piece, Reading, Session, Site, SiteSources, State, Think, Value,
};
use trimtab_load::http::{HttpAnswer, HttpRequest, Method, Origin};
use trimtab_load::source::{Sources, Step};

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all is left to the system's allocator; counting touches no memory that is being handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn text(text: &str) -> Vec<Piece> {
    vec![Piece::Text(text.to_owned())]
}

/// Items that lists show, and a name made of one.
fn values() -> Vec<Value> {
    let range = Kind::Number { low: Bound::Number(1), high: Bound::Number(9_999), skew: 0, plus: None, width: 0 };
    let finds = vec![Find::new("href=\"/item/", Some(b'"'))];
    let item = Value { kind: range, chance: 1.0, is_of_session: false, finds, none: None };
    let name = Kind::Text(vec![Piece::Text("user".to_owned()), Piece::Value(0)]);
    let name = Value { kind: name, finds: Vec::new(), ..item.clone() };
    vec![item, name]
}

fn state(label: &str, method: Method, path: Vec<Piece>, pairs: Vec<Pair>) -> State {
    let sends_hidden = method == Method::Post;
    State {
        label: label.to_owned(),
        asks: vec![Ask {
            share: 1.0,
            when: None,
            after: Vec::new(),
            method,
            path,
            pairs,
            sends_hidden,
            needs: Vec::new(),
        }],
        contains: vec!["right".to_owned()],
        nothing: vec!["sorry".to_owned()],
        picks: vec![0],
        reads_images: true,
        images: Vec::new(),
        wait_s: 0.0,
    }
}

/// A list of items, an item, and a form: found, filled in, gone back from.
fn site() -> Site {
    let pairs = vec![Pair { name: text("name"), value: vec![Piece::Value(1)] }];
    let rows = vec![
        vec![(Move::To(1), 1.0)],
        vec![(Move::To(2), 1.0), (Move::Back, 1.0), (Move::To(0), 1.0)],
        vec![(Move::To(0), 1.0), (Move::Back, 1.0)],
    ];
    Site {
        states: vec![
            state("list", Method::Get, text("/list"), Vec::new()),
            state("item", Method::Get, vec![Piece::Text("/item/".to_owned()), Piece::Value(0)], Vec::new()),
            state("buy", Method::Post, text("/buy"), pairs),
        ],
        chain: Chain::new(rows, Reading::Normalised).expect("legal"),
        session: Session { start: 0, steps_max: u32::MAX, lasts: None },
        values: values(),
        think: Think { exponential_s: Some((7.0, 70.0)), scale: 1.0 },
        always: Vec::new(),
        errors: vec!["ERROR".to_owned()],
        counts_sessions: false,
    }
}

#[test]
fn interactions_allocate_nothing() {
    let origin = Origin { is_encrypted: false, host: "shop".to_owned(), port: 80 };
    let mut source = SiteSources::new(site(), origin).expect("sound").source(0, 1);
    let page = "right <a href=\"/item/17\"> <a href=\"/item/4711\"> <img src=\"/a.png\"> <img src=\"b.png\"> \
                <input type=\"hidden\" name=\"item\" value=\"a&amp;b\">";
    let answer = HttpAnswer {
        status: 200,
        body: page.as_bytes().to_vec(),
        cookies: "id=1; Path=/".to_owned(),
        ..HttpAnswer::default()
    };
    let redirect = HttpAnswer { status: 302, location: "/moved/there".to_owned(), ..HttpAnswer::default() };
    let mut request = HttpRequest::default();
    let mut n_requests = 0_u32;
    let mut interact = |n: u32| {
        for _ in 0..n {
            source.begin().expect("endless");
            while source.step(&mut request) == Step::Request {
                n_requests += 1;
                let is_moved = n_requests.is_multiple_of(7) && request.keeps_body;
                source.answer(if is_moved { &redirect } else { &answer });
            }
            source.end(true);
            source.think();
        }
    };
    // Whatever page can be gone back to has had room for a form by then.
    interact(50_000);
    let before = N_ALLOCATIONS.get();
    interact(10_000);
    assert_eq!(N_ALLOCATIONS.get() - before, 0);
}
