use super::*;
use crate::random::Random;

/// A site that looks for everything that can be looked for.
fn curious() -> Site {
    let mut found = value(number(1, 3));
    found.finds = vec![Find::new("id=", None), Find::new("<", Some(b'>')), Find::new("\"", Some(b'"'))];
    let mut of_session = found.clone();
    of_session.is_of_session = true;
    let path = vec![Piece::Text("/".to_owned()), Piece::Value(0), Piece::Value(1)];
    let pairs = vec![Pair { name: vec![Piece::Value(1)], value: vec![Piece::Value(0)] }];
    let mut page = state(
        "a",
        vec![Ask { method: Method::Post, pairs, ..ask(path.clone()) }, Ask { sends_hidden: true, ..ask(path) }],
    );
    page.picks = vec![0, 1];
    Site { errors: vec!["err".to_owned()], ..ring(vec![page], vec![found, of_session]) }
}

/// Bytes of which many mean something in a page.
fn noise(random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 22] = [
        b"<img ",
        b"<input ",
        b"src=",
        b"type=hidden",
        b"name=",
        b"value=",
        b"\"",
        b"'",
        b">",
        b"<",
        b"id=",
        b"&amp;",
        b"&",
        b"/",
        b"://",
        b"..",
        b"err",
        b"\xff\xfe",
        b" ",
        b"=",
        b"\0",
        b"data:",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(4) {
            0 => bytes.push(random.bits() as u8),
            _ => bytes.extend_from_slice(PIECES[random.below(PIECES.len() as u64) as usize]),
        }
    }
    bytes
}

#[test]
fn no_answer_makes_a_browser_fall_over_or_send_what_cannot_be_sent() {
    let mut random = Random::new(1, 1);
    let n = if std::env::var("TRIMTAB_TESTS").is_ok_and(|form| form == "full") { 300_000 } else { 6_000 };
    let mut source = browser(curious());
    for _ in 0..n {
        let seen = interact(&mut *source, |request| {
            let is_sound =
                request.target.starts_with('/') && request.target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
            assert!(is_sound, "{:?}", request.target);
            assert!(request.body.iter().all(|byte| byte.is_ascii_graphic()), "{:?}", request.body);
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(['\r', '\n'], "");
            let body = noise(&mut random);
            let status = [200, 200, 200, 302, 404, 500, 0][random.below(7) as usize];
            let (location, cookies) = (text(noise(&mut random)), text(noise(&mut random)));
            HttpAnswer { status, n_bytes: body.len() as u64, body, location, cookies }
        });
        assert!(!seen.1.is_empty());
    }
}

#[test]
fn pages_cut_off_anywhere_are_read_as_far_as_they_go() {
    let page = b"<a href=\"/x?id=5\"><img alt='>' src=\"/a.png\"><input type=\"hidden\" name=\"n\" value=\"v\">";
    for end in 0..page.len() {
        let mut source = browser(curious());
        let answer = HttpAnswer { status: 200, body: page[..end].to_vec(), ..HttpAnswer::default() };
        assert_eq!(interact(&mut *source, |_| answer.clone()).1, "End", "{end}");
    }
}

#[test]
fn what_is_kept_of_a_page_is_bounded() {
    let many: String =
        (0..5_000).map(|n| format!("id={n} <img src=/{n}.png><input type=hidden name=n{n} value=x>")).collect();
    let long = format!("id={} id=7", "9".repeat(5_000));
    let mut source = browser(curious());
    assert!(interact(&mut *source, |_| ok(&many)).0.len() <= 1 + 128);
    assert_eq!(interact(&mut *source, |_| ok(&long)).1, "End");
}
