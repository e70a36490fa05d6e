use super::*;

const PLAIN: Manner = Manner { follows: true, keeps_cookies: true, is_fresh: false };

fn page(label: &str, path: &str, weight: f64) -> Page {
    Page { label: label.to_owned(), path: path.to_owned(), weight, ..Page::default() }
}

fn sources(pages: &[Page], manner: Manner) -> PageSources {
    let origin = Origin { is_encrypted: false, host: "shop".to_owned(), port: 80 };
    PageSources::new(pages.to_vec(), manner, origin).expect("legal pages")
}

fn refused(page: Page) -> String {
    let origin = Origin { is_encrypted: false, host: "shop".to_owned(), port: 80 };
    PageSources::new(vec![page], PLAIN, origin).expect_err("an illegal page")
}

fn redirected(status: u16, location: &str, cookies: &str) -> HttpAnswer {
    HttpAnswer { status, location: location.to_owned(), cookies: cookies.to_owned(), ..HttpAnswer::default() }
}

fn ok(body: &str) -> HttpAnswer {
    HttpAnswer { status: 200, body: body.as_bytes().to_vec(), ..HttpAnswer::default() }
}

/// What is asked in one operation, each with what comes back; and how it ends.
fn story(source: &mut dyn Source<Http>, answers: &[HttpAnswer]) -> (Vec<String>, String) {
    source.begin().expect("endless");
    let (mut request, mut lines) = (HttpRequest::default(), Vec::new());
    for turn in 0.. {
        match source.step(&mut request) {
            Step::Request => {
                let cookies = if request.cookies.is_empty() { "" } else { " with " };
                lines.push(format!("{} {}{cookies}{}", request.method.name(), request.target, request.cookies));
                source.answer(answers.get(turn).unwrap_or(&ok("")));
            }
            Step::Fail => return (lines, source.failure().message),
            step => return (lines, format!("{step:?}")),
        }
    }
    unreachable!("it ends")
}

#[test]
fn pages_come_by_their_shares_and_the_same_seed_gives_the_same() {
    let all = sources(&[page("a", "/a/{1-3}", 3.0), page("b", "/b", 1.0), page("never", "/c", 0.0)], PLAIN);
    assert_eq!(all.labels(), ["a", "b", "never"]);
    let walk = |seed| {
        let mut source = all.source(0, seed);
        (0..4_000).map(|_| story(&mut *source, &[]).0[0].clone()).collect::<Vec<_>>()
    };
    let first = walk(1);
    for (target, expected) in [("GET /a/1", 1_000), ("GET /a/2", 1_000), ("GET /a/3", 1_000), ("GET /b", 1_000)] {
        let n = first.iter().filter(|line| *line == target).count();
        assert!(n.abs_diff(expected) < 120, "{target} {n}");
    }
    assert!(!first.iter().any(|line| line.contains("/c")));
    assert_eq!(first, walk(1));
    assert_ne!(first, walk(2));
}

#[test]
fn resources_redirects_and_cookies_belong_to_an_operation() {
    let login = Page {
        method: Method::Post,
        resources: vec!["/style.css".to_owned()],
        body: b"user=me".to_vec(),
        ..page("login", "/login", 1.0)
    };
    let mut source = sources(&[login], PLAIN).source(0, 1);
    let answers = [redirected(302, "/home?a=1", "id=7; Path=/\nlang=en; Path=/home\n"), ok("hello")];
    let expected = ["POST /login", "GET /home?a=1 with lang=en; id=7", "GET /style.css with id=7"];
    assert_eq!(story(&mut *source, &answers), (expected.map(str::to_owned).to_vec(), "End".to_owned()));
    let again = redirected(307, "/other", "");
    assert_eq!(story(&mut *source, &[again]).0[..2], ["POST /login with id=7", "POST /other with id=7"]);
}

#[test]
fn redirects_are_followed_only_so_far() {
    let mut source = sources(&[page("a", "/a", 1.0)], PLAIN).source(0, 1);
    let (lines, end) = story(&mut *source, &vec![redirected(301, "/a", ""); 20]);
    assert_eq!((lines.len(), end.as_str()), (11, "more than 10 redirects, the last to /a"));
    let (_, end) = story(&mut *source, &[redirected(301, "https://shop/", "")]);
    assert_eq!(end, "status 301 leads to \"https://shop/\", which is not this site");
    let stays = Manner { follows: false, ..PLAIN };
    let mut source = sources(&[page("a", "/a", 1.0)], stays).source(0, 1);
    assert_eq!(story(&mut *source, &[redirected(301, "/b", "")]), (vec!["GET /a".to_owned()], "End".to_owned()));
}

#[test]
fn a_redirect_without_an_address_is_a_page() {
    let mut source = sources(&[page("a", "/a", 1.0)], PLAIN).source(0, 1);
    assert_eq!(story(&mut *source, &[redirected(302, "", "")]), (vec!["GET /a".to_owned()], "End".to_owned()));
    let shown = Page { text: Some("Welcome".to_owned()), ..page("a", "/a", 1.0) };
    let mut source = sources(&[shown], PLAIN).source(0, 1);
    assert_eq!(story(&mut *source, &[redirected(302, "", "")]).1, "\"Welcome\" is not in the page (0 bytes)");
}

#[test]
fn what_is_done_behind_a_redirect_is_what_a_browser_does() {
    let asked = |method, answers: &[HttpAnswer]| {
        let page = Page { method, resources: vec!["/r".to_owned()], ..page("a", "/a", 1.0) };
        story(&mut *sources(&[page], PLAIN).source(0, 1), answers).0.join(", ")
    };
    // The form is not sent a second time, whatever the page that was read instead says of itself.
    let answers = [redirected(303, "/b", ""), redirected(307, "/b/", "")];
    assert_eq!(asked(Method::Post, &answers), "POST /a, GET /b, GET /b/, GET /r");
    assert_eq!(asked(Method::Head, &[redirected(302, "/b", "")]), "HEAD /a, HEAD /b, GET /r");
    assert_eq!(asked(Method::Delete, &[redirected(301, "/b", "")]), "DELETE /a, DELETE /b, GET /r");
    assert_eq!(asked(Method::Put, &[redirected(303, "/caf\u{e9}", "")]), "PUT /a, GET /caf%C3%A9, GET /r");
    // A resource that is elsewhere is read there.
    let answers = [ok(""), redirected(307, "/s", "")];
    assert_eq!(asked(Method::Post, &answers), "POST /a, GET /r, GET /s");
}

#[test]
fn a_fresh_user_has_no_cookies_and_a_connection_of_its_own() {
    let pages = [Page { resources: vec!["/b".to_owned()], ..page("a", "/a", 1.0) }];
    let mut source = sources(&pages, Manner { is_fresh: true, ..PLAIN }).source(0, 1);
    let mut request = HttpRequest::default();
    for _ in 0..2 {
        source.begin();
        let mut seen = Vec::new();
        while source.step(&mut request) == Step::Request {
            seen.push((request.target.clone(), request.is_fresh, request.is_last, request.cookies.clone()));
            source.answer(&HttpAnswer { cookies: "id=7; Path=/\n".to_owned(), ..ok("") });
        }
        let expected =
            [("/a".to_owned(), true, false, String::new()), ("/b".to_owned(), false, true, "id=7".to_owned())];
        assert_eq!(seen, expected);
        source.end(true);
    }
}

#[test]
fn a_fresh_connection_lasts_until_where_redirects_lead() {
    let all = sources(&[page("a", "/a", 1.0)], Manner { is_fresh: true, ..PLAIN });
    let ends = |user: u32| {
        let (mut source, mut request, mut seen) = (all.source(user, 1), HttpRequest::default(), Vec::new());
        source.begin();
        while source.step(&mut request) == Step::Request {
            seen.push(request.is_last);
            source.answer(&if seen.len() == 1 { redirected(302, "/b", "") } else { ok("") });
        }
        seen
    };
    // The first user of all could not know.
    assert_eq!([ends(0), ends(0), ends(1)], [[true, true], [false, true], [false, true]]);
}

#[test]
fn a_page_without_its_text_is_wrong() {
    let shown = Page { text: Some("Welcome".to_owned()), ..page("a", "/a", 1.0) };
    let mut source = sources(&[shown], PLAIN).source(0, 1);
    assert_eq!(story(&mut *source, &[ok("<p>Welcome, you</p>")]).1, "End");
    assert_eq!(story(&mut *source, &[ok("Sorry")]).1, "\"Welcome\" is not in the page (0 bytes)");
    // The page behind a redirect is the one that counts.
    assert_eq!(story(&mut *source, &[redirected(302, "/b", ""), ok("Welcome")]).1, "End");
    source.begin();
    let mut request = HttpRequest::default();
    assert_eq!((source.step(&mut request), request.keeps_body, request.status), (Step::Request, true, SUCCESS));
}

#[test]
fn a_status_that_is_wanted_is_asked_for() {
    let missing = Page { status: Some(302), ..page("a", "/a", 1.0) };
    let mut source = sources(&[missing], PLAIN).source(0, 1);
    let mut request = HttpRequest::default();
    source.begin();
    source.step(&mut request);
    assert_eq!(request.status, (302, 302));
    source.answer(&redirected(302, "/b", ""));
    assert_eq!(source.step(&mut request), Step::End);
}

#[test]
fn pages_that_cannot_be_asked_for_are_refused() {
    let cases = [
        ("x", "page a: path=\"x\" does not begin with /"),
        ("/a b", "page a: path=\"/a b\" holds ' ': write %XX for other characters"),
        ("/ä", "page a: path=\"/ä\" holds 'ä': write %XX for other characters"),
        ("/#/login", "page a: path=\"/#/login\" holds '#': what follows it stays in the browser, leave it out"),
        ("/{1-", "page a: path=\"/{1-\" has { without }"),
        ("/{9-1}", "page a: path=\"/{9-1}\" has {9-1}, which is no range: write {1-1000}"),
        ("/{id}", "page a: path=\"/{id}\" has {id}, which is no range: write {1-1000}"),
    ];
    for (path, text) in cases {
        assert_eq!(refused(page("a", path, 1.0)), text);
    }
    assert_eq!(refused(page("a", "/", 0.0)), "pages: sum of the weights=0 must be above 0 and finite");
    assert_eq!(refused(page("a", "/", -1.0)), "pages: weight=-1 must be a finite number that is not negative");
    let text = Some(String::new());
    assert_eq!(refused(Page { text, ..page("a", "/", 1.0) }), "page a: the text that must stand in it is empty");
}
