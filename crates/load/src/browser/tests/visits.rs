use super::*;

/// One state, whose page is this.
fn single(state: State) -> Site {
    ring(vec![state], Vec::new())
}

#[test]
fn an_interaction_is_the_page_its_redirects_and_its_images() {
    let mut home = state("home", vec![ask(text("/a/home"))]);
    home.images = vec!["/always.png".to_owned()];
    let mut source = browser(single(home));
    let site = |request: &HttpRequest| match &request.target[..] {
        "/a/home" => HttpAnswer {
            status: 302,
            location: "/b/start?x=1".to_owned(),
            cookies: "s=1; Path=/".to_owned(),
            ..HttpAnswer::default()
        },
        "/b/start?x=1" => ok(
            "<p><IMG alt='a>b' SRC=\"/i/1.png\"><img src=two.png><img src='/i/1.png'><img\nsrc=\"/q?a=1&amp;b=c d\"/>\
             <img src=\"http://elsewhere/3.png\"><img src=\"data:image/png;base64,AA\"><imgs src=\"/no\"><img alt=x>\
             <img src=\"http://shop/moved.png\">",
        ),
        "/moved.png" => HttpAnswer { status: 301, location: "/kept.png".to_owned(), ..HttpAnswer::default() },
        _ => ok("\x7fPNG"),
    };
    let (lines, end) = interact(&mut *source, site);
    let expected = [
        "/a/home",
        "/b/start?x=1",
        "/always.png",
        "/i/1.png",
        "/b/two.png",
        "/q?a=1&b=c%20d",
        "/moved.png",
        "/kept.png",
    ];
    let asked: Vec<_> = expected.iter().map(|target| format!("GET {target}")).collect();
    let cookies = |line: &String| line.strip_suffix(" s=1").unwrap_or(line).to_owned();
    assert_eq!((lines.iter().map(cookies).collect::<Vec<_>>(), &end[..]), (asked, "End"));
    assert!(lines[1..].iter().all(|line| line.ends_with(" s=1")), "{lines:?}");
}

#[test]
fn what_stands_in_a_comment_and_an_image_without_an_address_are_not_asked_for() {
    let page = "<!-- <img src=/old.png><input type=hidden name=old value=1> --><img src=\"\" data-src=/late.png><img src=' '>\
                <img src=\"\n /new.png \"><input type=hidden name=new value=2><!--><img src=/2.png>";
    let send = state("send", vec![Ask { method: Method::Post, sends_hidden: true, ..ask(text("/send")) }]);
    let mut source = browser(ring(vec![state("form", vec![ask(text("/form"))]), send], Vec::new()));
    let site = |request: &HttpRequest| ok(if request.target == "/form" { page } else { "" });
    assert_eq!(interact(&mut *source, site).0, ["GET /form", "GET /new.png", "GET /2.png"]);
    assert_eq!(interact(&mut *source, site).0, ["POST /send new=2"]);
}

#[test]
fn attributes_are_read_with_spaces_around_their_signs() {
    let page = "<img alt = 'a' src =\n\"/1.png\"><img src= /2.png><img checked src=/3.png>\
                <input type = hidden name = \"n\" value = 'v w'>";
    let send = state("send", vec![Ask { method: Method::Post, sends_hidden: true, ..ask(text("/send")) }]);
    let mut source = browser(ring(vec![state("form", vec![ask(text("/form"))]), send], Vec::new()));
    let site = |request: &HttpRequest| ok(if request.target == "/form" { page } else { "" });
    assert_eq!(interact(&mut *source, site).0, ["GET /form", "GET /1.png", "GET /2.png", "GET /3.png"]);
    assert_eq!(interact(&mut *source, site).0, ["POST /send n=v%20w"]);
}

#[test]
fn addresses_are_relative_to_the_base_of_a_page() {
    let asked = |page: &str| {
        let site = |request: &HttpRequest| ok(if request.target == "/a/b/c" { page } else { "" });
        interact(&mut *browser(single(state("a", vec![ask(text("/a/b/c"))]))), site).0.split_off(1)
    };
    let images = "<img src=1.png><img src=/2.png><img src=http://shop/3.png>";
    let with = |base: &str| asked(&format!("<base {base}>{images}<base href=/no/>"));
    assert_eq!(with("target=x"), ["GET /a/b/1.png", "GET /2.png", "GET /3.png"]);
    assert_eq!(with("href=\"http://shop/app/\""), ["GET /app/1.png", "GET /2.png", "GET /3.png"]);
    assert_eq!(with("href='..'"), ["GET /a/1.png", "GET /2.png", "GET /3.png"]);
    assert_eq!(with("href=https://elsewhere/"), ["GET /3.png"]);
}

#[test]
fn pages_in_other_characters_than_unicode_are_read() {
    let page = b"<img src='/caf\xe9&amp;.png'><input type=hidden name=\"caf\xe9\" value=\"\xfc&#43;\xc3\xa9\">";
    let send = state("send", vec![Ask { method: Method::Post, sends_hidden: true, ..ask(text("/send")) }]);
    let mut source = browser(ring(vec![state("form", vec![ask(text("/form"))]), send], Vec::new()));
    let site = |_: &HttpRequest| HttpAnswer { status: 200, body: page.to_vec(), ..HttpAnswer::default() };
    assert_eq!(interact(&mut *source, site).0, ["GET /form", "GET /caf%E9&.png"]);
    assert_eq!(interact(&mut *source, site).0[0], "POST /send caf%E9=%FC%2B%C3%A9");
}

#[test]
fn the_state_of_a_page_is_sent_back_as_a_whole() {
    let (state_of_page, too_long) = ("s/".repeat(20_000), "x".repeat(127 * 1024));
    let field = |name: &str, value: &str| format!("<input type=hidden name={name} value=\"{value}\">");
    let page = [field("a", "1"), field("view", &state_of_page), field("no", &too_long), field("b", "2")].concat();
    let send = state("send", vec![Ask { method: Method::Post, sends_hidden: true, ..ask(text("/send")) }]);
    let mut source = browser(ring(vec![state("form", vec![ask(text("/form"))]), send], Vec::new()));
    interact(&mut *source, |_| ok(&page));
    let sent = interact(&mut *source, |_| ok("")).0;
    assert!(sent == [format!("POST /send a=1&view={}&b=2", "s%2F".repeat(20_000))], "{} bytes", sent[0].len());
}

#[test]
fn a_form_is_sent_with_the_page_in_which_it_stood() {
    let site = |request: &HttpRequest| match &request.target[..] {
        "/form" => HttpAnswer { status: 302, location: "/form?n=1".to_owned(), ..HttpAnswer::default() },
        _ => ok("<img src=/a.png>"),
    };
    let send = state("send", vec![Ask { method: Method::Post, ..ask(text("/send")) }]);
    for (session, sent) in [(SESSION, "Referer: http://shop/form?n=1\r\n"), (Session { start: 1, ..SESSION }, "")] {
        let states = vec![state("form", vec![ask(text("/form"))]), send.clone()];
        let (mut source, mut headers) = (browser(Site { session, ..ring(states, Vec::new()) }), Vec::new());
        for _ in 0..2 {
            interact(&mut *source, |request| {
                headers.extend(request.method.has_body().then(|| request.headers.clone()));
                site(request)
            });
        }
        assert_eq!(headers, [format!("Content-Type: application/x-www-form-urlencoded\r\n{sent}")]);
    }
}

#[test]
fn a_form_is_sent_once_however_often_its_answer_is_elsewhere() {
    let form = state("buy", vec![Ask { method: Method::Post, ..ask(text("/buy")) }]);
    let site = |request: &HttpRequest| {
        let (status, location) = match &request.target[..] {
            "/buy" => (303, "/order"),
            "/order" => (308, "/order/"),
            _ => (200, ""),
        };
        HttpAnswer { status, location: location.to_owned(), ..HttpAnswer::default() }
    };
    let (lines, end) = interact(&mut *browser(single(form)), site);
    assert_eq!((lines.join(", "), &end[..]), ("POST /buy, GET /order, GET /order/".to_owned(), "End"));
}

#[test]
fn failures_are_told_apart() {
    let made = |page: State| Site { errors: vec!["<!-- error kind=".to_owned(), "ERROR".to_owned()], ..single(page) };
    let page = || State {
        contains: vec!["right".to_owned(), "whole".to_owned()],
        ..state("home", vec![ask(text("/x?secret"))])
    };
    let outcome = |answer: HttpAnswer| interact(&mut *browser(made(page())), |_| answer.clone()).1;
    let with = |status: u16, body: &str| HttpAnswer { status, ..ok(body) };
    for (answer, expected) in [
        (ok("right and whole"), "End"),
        (ok("right"), "Validation \"whole\" is not in the page (5 bytes)"),
        (ok("<!-- error kind=pool state=x --> right whole"), "ErrorPage[pool] 200 pool for GET /x"),
        (ok("ERROR: right whole"), "ErrorPage 200 for GET /x"),
        (with(503, "<!-- error kind=pool -->"), "Http5xx[pool] 503 pool for GET /x"),
        (with(500, ""), "Http5xx 500 for GET /x"),
        (with(404, "<!-- error kind=missing"), "Http4xx[missing] 404 missing for GET /x"),
        (with(304, "right whole"), "Validation 304 for GET /x"),
        (
            HttpAnswer { location: "http://other/".to_owned(), ..with(302, "") },
            "Validation status 302 leads to \"http://other/\", which is not this site",
        ),
        (
            HttpAnswer { location: "/again".to_owned(), ..with(302, "") },
            "Validation more than 10 redirects, the last to /again",
        ),
    ] {
        assert_eq!(outcome(answer), expected);
    }
}

#[test]
fn a_failure_begins_a_new_session_on_a_new_connection_without_cookies() {
    let site = ring(["/0", "/1", "/2"].map(|path| state(path, vec![ask(text(path))])).into(), Vec::new());
    let mut source = browser(site);
    let mut n = 0;
    let mut turn = |status: u16| {
        n += 1;
        let answer = HttpAnswer { status, cookies: format!("n={n}; Path=/"), ..HttpAnswer::default() };
        interact(&mut *source, |_| answer.clone()).0.join(",")
    };
    assert_eq!(turn(200), "GET /0");
    assert_eq!(turn(200), "GET /1 n=1");
    assert_eq!(turn(500), "GET /2 n=2");
    assert_eq!(turn(200), "fresh GET /0");
    assert_eq!(turn(200), "GET /1 n=4");
}

/// Items are found in a list and asked for, then bought by the form of their page.
fn shop() -> Site {
    let mut item = value(number(1_000, 1_009));
    item.finds = vec![Find::new("href=\"/item/", Some(b'"'))];
    let mut list = state("list", vec![ask(text("/list"))]);
    list.picks = vec![0];
    let mut view = state("view", vec![ask(vec![Piece::Text("/item/".to_owned()), Piece::Value(0)])]);
    view.nothing = vec!["Sorry".to_owned()];
    let pairs = vec![Pair { name: text("how%20many"), value: text("1%20%26") }];
    let buy = Ask { method: Method::Post, pairs, sends_hidden: true, ..ask(text("/buy")) };
    let rows = vec![
        vec![(Move::To(1), 1.0)],
        vec![(Move::To(2), 1.0), (Move::Back, 1e-12)],
        vec![(Move::To(0), 1.0), (Move::Back, 1e-12)],
    ];
    Site { chain: chain(rows), ..ring(vec![list, view, state("buy", vec![buy])], vec![item]) }
}

#[test]
fn what_pages_give_is_asked_for_and_forms_are_sent_back() {
    let mut source = browser(shop());
    let list = ok("<a href=\"/item/7\">, <a href=\"/item/8%20b&amp;c\">");
    assert_eq!(interact(&mut *source, |_| list.clone()).0, ["GET /list"]);
    let form = "<form><INPUT value='a&amp;b=\u{e9}' name=\"x y\" type=hidden><input type=\"hidden\" name=\"n\"><input name=\"no\">";
    let (lines, _) = interact(&mut *source, |_| ok(form));
    assert!(["GET /item/7", "GET /item/8%20b&c"].contains(&&lines[0][..]), "{lines:?}");
    assert_eq!(interact(&mut *source, |_| ok("")).0, ["POST /buy x%20y=a%26b%3D%C3%A9&n=&how%20many=1%20%26"]);
}

#[test]
fn the_fields_of_one_form_are_sent_as_by_a_browser() {
    let page = "<input type=hidden name=a value=0>\
                <form action='/logout;id=1'><input type=hidden name=_method value=delete></form>\
                <FORM method=post action=\"cart/add?x\"><input type=hidden name=item value=1></FORM><form></form>\
                <form action=cart/add Method = ' POST'><input type=hidden name=item value=2>\
                <input type=hidden name=b value=3></form><form action=cart/add><input type=hidden name=q value=4></form>";
    let sent_by = |method: Method, path: &str| {
        let send = Ask { method, sends_hidden: true, ..ask(text(path)) };
        let mut source = browser(ring(vec![state("form", vec![ask(text("/"))]), state("send", vec![send])], vec![]));
        let once = |_| {
            interact(&mut *source, |_| ok(page));
            interact(&mut *source, |_| ok("")).0.remove(0)
        };
        (0..50).map(once).collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let sent = |path: &str| sent_by(Method::Post, path);
    assert_eq!(sent("/cart/add"), ["POST /cart/add item=1", "POST /cart/add item=2&b=3"]);
    assert_eq!(sent("/logout?now"), ["POST /logout?now _method=delete"]);
    assert_eq!(sent("/elsewhere"), ["POST /elsewhere a=0&_method=delete&item=1&item=2&b=3&q=4"]);
    assert_eq!(sent_by(Method::Get, "/cart/add"), ["GET /cart/add?q=4"]);
}

#[test]
fn a_part_of_an_address_is_sent_as_it_stood() {
    let found = |find| Value { finds: vec![find], ..value(Kind::Nothing) };
    let values = vec![found(Find::new("category=", None)), found(Find::new("token=", Some(b'"')))];
    let list = State { picks: vec![0, 1], ..state("list", vec![ask(text("/list"))]) };
    let pair = |name: &str, number| Pair { name: text(name), value: vec![Piece::Value(number)] };
    let search = state("search", vec![Ask { pairs: vec![pair("q", 0), pair("t", 1)], ..ask(text("/search")) }]);
    let mut source = browser(ring(vec![list, search], values));
    for (category, sent) in [("Arts+%26+Crafts", "Arts+%26+Crafts"), ("c++", "c%2B%2B"), ("5%", "5%25")] {
        interact(&mut *source, |_| ok(&format!("<a href='/search?category={category}'> token=a%3D\"")));
        assert_eq!(interact(&mut *source, |_| ok("")).0, [format!("GET /search?q={sent}&t=a%253D")]);
    }
}

#[test]
fn a_form_that_is_got_sends_its_hidden_fields_too() {
    let pairs = vec![Pair { name: text("q"), value: text("x") }];
    let find = |path: &str| Ask { pairs: pairs.clone(), sends_hidden: true, ..ask(text(path)) };
    let states = vec![state("form", vec![ask(text("/"))]), state("found", vec![find("/find"), find("/find?a=1")])];
    let mut source = browser(ring(states, Vec::new()));
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..30 {
        interact(&mut *source, |_| ok("<input type=hidden name=token value='Q&#43;A&#x3D;'>"));
        found.extend(interact(&mut *source, |_| ok("")).0);
    }
    let expected = ["GET /find?a=1&token=Q%2BA%3D&q=x", "GET /find?token=Q%2BA%3D&q=x"];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn without_anything_found_a_number_of_the_range_is_asked_for() {
    let mut source = browser(shop());
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..300 {
        interact(&mut *source, |_| ok(""));
        let (lines, _) = interact(&mut *source, |_| ok("<input type=hidden name=a value=b>"));
        asked.extend(lines);
        interact(&mut *source, |_| ok(""));
    }
    let expected: Vec<_> = (1_000..=1_009).map(|n| format!("GET /item/{n}")).collect();
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn whoever_finds_nothing_goes_back_to_the_very_page_before() {
    let mut source = browser(shop());
    let list = ok("<a href=\"/item/7\">");
    interact(&mut *source, |_| list.clone());
    // The page says that there is nothing.
    assert_eq!(interact(&mut *source, |_| ok("Sorry")), (vec!["GET /item/7".to_owned()], "End".to_owned()));
    assert_eq!(interact(&mut *source, |_| list.clone()).0, ["GET /list"]);
    // There is no form to send, and nothing else to do: back to the list, which is the same.
    assert_eq!(interact(&mut *source, |_| ok("")).0, ["GET /item/7"]);
    assert_eq!(interact(&mut *source, |_| list.clone()).0, ["GET /list"]);
    assert_eq!(interact(&mut *source, |_| ok("<input type=hidden name=a value=b>")).0, ["GET /item/7"]);
    assert_eq!(interact(&mut *source, |_| ok("")).0[0].split(' ').nth(1), Some("/buy"));
}

#[test]
fn whoever_cannot_go_there_goes_elsewhere_and_the_page_is_not_asked_for_again() {
    let Site { states, values, .. } = shop();
    // From the item to the form nearly always, which it does not have; no way leads back.
    let rows = vec![vec![(Move::To(1), 1.0)], vec![(Move::To(2), 9.0), (Move::To(0), 1.0)], vec![(Move::To(0), 1.0)]];
    let mut source = browser(Site { chain: chain(rows), session: SESSION, ..ring(states, values) });
    let list = ok("<a href=\"/item/7\">");
    for n in 0..20 {
        assert_eq!(interact(&mut *source, |_| list.clone()).0, ["GET /list"], "{n}");
        let body = if n % 2 == 0 { "" } else { "Sorry" };
        assert_eq!(interact(&mut *source, |_| ok(body)).0, ["GET /item/7"], "{n}");
    }
}

#[test]
fn a_site_that_never_lets_anybody_in_fails_and_goes_on() {
    let nowhere = state("nowhere", vec![ask(vec![Piece::Text("/".to_owned()), Piece::Value(0)])]);
    let mut source = browser(ring(vec![nowhere], vec![value(Kind::Nothing)]));
    for _ in 0..3 {
        let (lines, end) = interact(&mut *source, |_| ok(""));
        assert_eq!((lines.len(), &end[..]), (0, "Other nowhere: what its request is made of is nowhere to be found"));
    }
}

#[test]
fn ways_to_ask_depend_on_what_is_known() {
    let mut customer = value(number(5, 5));
    customer.chance = 0.5;
    customer.is_of_session = true;
    customer.finds = vec![Find::new(" customer=", None)];
    customer.none = Some("0".to_owned());
    let known = Ask { when: Some((0, true)), ..ask(text("/known")) };
    let asks = vec![
        known,
        Ask { when: Some((0, false)), share: 3.0, ..ask(text("/unknown")) },
        Ask { when: Some((0, false)), ..ask(text("/rare?a")) },
    ];
    let mut home = state("home", asks);
    home.picks = vec![0];
    let always = vec![Pair { name: text("customer"), value: vec![Piece::Value(0)] }];
    let site = |page: State| Site { always: always.clone(), ..ring(vec![page], vec![customer.clone()]) };
    let sources = SiteSources::new(site(home.clone()), origin()).expect("legal");
    let first = |user: u32, body: &str| {
        let mut source = sources.source(user, 1);
        let one = interact(&mut *source, |_| ok(body)).0.remove(0);
        (one, interact(&mut *source, |_| ok("")).0.remove(0))
    };
    let n = |target: &str| (0..2_000).filter(|&user| first(user, "").0 == target).count();
    for (target, expected) in [("GET /known?customer=5", 1_000_usize), ("GET /unknown", 750), ("GET /rare?a", 250)] {
        assert!(n(target).abs_diff(expected) < 100, "{target} {}", n(target));
    }
    // What a page says counts from then on, none as well.
    assert_eq!(first(1, "<!-- ok customer=77 -->").1, "GET /known?customer=77");
    assert!((0..50).all(|user| !first(user, "<!-- ok customer=0 -->").1.contains("customer")));
}

#[test]
fn ways_to_ask_depend_on_the_page_before() {
    let cart = vec![
        Ask { after: vec![0], method: Method::Post, sends_hidden: true, ..ask(text("/add")) },
        Ask { after: vec![1], when: Some((0, true)), ..ask(text("/change")) },
        ask(text("/look")),
    ];
    let line = value(one_of(&[("7", 0.5), ("", 0.5)]));
    let site = Site {
        chain: chain(vec![vec![(Move::To(1), 1.0)], vec![(Move::To(1), 1.0)]]),
        session: Session { steps_max: 3, ..SESSION },
        ..ring(vec![state("product", vec![ask(text("/product"))]), state("cart", cart)], vec![line])
    };
    let mut source = browser(site);
    let (mut n_changed, mut n_looked) = (0, 0);
    for _ in 0..200 {
        let mut next = |body: &str| interact(&mut *source, |_| ok(body)).0.remove(0);
        assert!(next("<input type=hidden name=item value=4>").ends_with("GET /product"));
        assert_eq!(next(""), "POST /add item=4");
        match &next("")[..] {
            "GET /change" => n_changed += 1,
            "GET /look" => n_looked += 1,
            other => panic!("{other}"),
        }
    }
    // Where what is for this page cannot be asked, the others are.
    assert!(n_changed > 50 && n_looked > 50, "{n_changed} {n_looked}");
}

#[test]
fn in_an_open_loop_of_sessions_only_a_sessions_first_page_waits_for_the_schedule() {
    for counts_sessions in [true, false] {
        let site = Site {
            counts_sessions,
            session: Session { steps_max: 3, ..SESSION },
            ..single(state("a", vec![ask(text("/"))]))
        };
        let mut source = browser(site);
        let engaged: Vec<_> = (0..7)
            .map(|_| {
                let is_engaged = source.is_engaged();
                interact(&mut *source, |_| ok(""));
                is_engaged
            })
            .collect();
        assert_eq!(
            engaged,
            [false, true, true, false, true, true, false].map(|is_engaged| is_engaged && counts_sessions)
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_visits_and_a_rewound_one_is_the_same() {
    let run = |user| {
        let mut source = SiteSources::new(shop(), origin()).expect("legal").source(user, 9);
        (0..30).map(|_| interact(&mut *source, |_| ok("<input type=hidden name=a value=b>")).0).collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
    let mut source = browser(shop());
    let mut request = HttpRequest::default();
    source.begin();
    assert_eq!(source.step(&mut request), Step::Request);
    source.answer(&ok("<img src=/a.png>"));
    source.rewind();
    assert_eq!(interact(&mut *source, |_| ok("")), (vec!["GET /list".to_owned()], "End".to_owned()));
}

#[test]
fn sites_that_do_not_fit_together_are_refused() {
    let page = || state("a", vec![ask(text("/"))]);
    let cases: Vec<(Site, &str)> = vec![
        (single(state("a", vec![])), "a: nothing is asked for"),
        (single(state("a", vec![ask(text("x"))])), "a: a path does not begin with /"),
        (single(state("a", vec![Ask { share: 0.0, ..ask(text("/")) }])), "a: share=0 is not above 0"),
        (single(state("a", vec![Ask { after: vec![1], ..ask(text("/")) }])), "a: there is no state number 1"),
        (single(State { picks: vec![3], ..page() }), "a: there is no value number 3"),
        (single(State { wait_s: -1.0, ..page() }), "-1 is not a time in seconds"),
        (Site { session: Session { start: 4, ..SESSION }, ..single(page()) }, "session: there is no state number 4"),
        (Site { session: Session { steps_max: 0, ..SESSION }, ..single(page()) }, "session: it has no interactions"),
        (Site { states: vec![page(), page()], ..single(page()) }, "2 states, and transitions of 1"),
        (ring(vec![page()], vec![value(number(2, 1))]), "value number 0: no number is from 2 to 1"),
        (ring(vec![page()], vec![value(Kind::OneOf(vec![]))]), "value number 0: sum of the weights="),
        (
            ring(vec![page()], vec![value(Kind::Text(vec![Piece::Value(0)]))]),
            "value number 0: it is made of number 0, which does not come before it",
        ),
    ];
    for (site, words) in cases {
        let refused = SiteSources::new(site, origin()).expect_err("does not fit");
        assert!(refused.contains(words), "{refused} / {words}");
    }
}
