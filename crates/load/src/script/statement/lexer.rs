//! Just enough of SQL's lexical rules to tell a placeholder or a semicolon from the same character in a string or comment.

use super::super::word::is_name;
use crate::sql::Dialect;

/// One lexical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Space,
    /// To the end of the line, without it.
    LineComment,
    BlockComment,
    /// A string or a quoted identifier with its quotes.
    Quoted,
    /// A keyword, a name, or a number.
    Word,
    /// `:name`.
    Placeholder,
    /// Anything else, one character at a time (a run of colons at once).
    Sign(u8),
    /// A string, identifier or comment that the text ends in.
    Unterminated,
}

/// A unit and the text it covers.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Piece<'a> {
    pub(in super::super) unit: Unit,
    pub(in super::super) text: &'a str,
    /// Where it starts.
    pub(in super::super) offset: usize,
}

impl Piece<'_> {
    /// Whether it is a word that is no number.
    pub(super) fn is_name(&self) -> bool {
        self.unit == Unit::Word && !self.text.starts_with(|first: char| first.is_ascii_digit())
    }
}

/// All units of a text in order; their texts joined are the text.
#[derive(Clone, Debug)]
pub(in super::super) struct Units<'a> {
    source: &'a str,
    at: usize,
    dialect: Dialect,
}

impl<'a> Units<'a> {
    pub(in super::super) fn new(source: &'a str, at: usize, dialect: Dialect) -> Self {
        Self { source, at, dialect }
    }

    /// Where the next unit starts.
    pub(in super::super) fn offset(&self) -> usize {
        self.at
    }

    /// Goes on from here.
    pub(in super::super) fn seek(&mut self, at: usize) {
        self.at = at;
    }
}

impl<'a> Iterator for Units<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let offset = self.at;
        let rest = &self.source[offset..];
        let (unit, length) = measure(rest, self.dialect)?;
        self.at += length;
        Some(Piece { unit, text: &rest[..length], offset })
    }
}

fn measure(rest: &str, dialect: Dialect) -> Option<(Unit, usize)> {
    let bytes = rest.as_bytes();
    let is_mysql = dialect == Dialect::Mysql;
    let ended = |unit, end: Option<usize>| end.map_or((Unit::Unterminated, rest.len()), |end| (unit, end));
    let line = || (Unit::LineComment, rest.find('\n').unwrap_or(rest.len()));
    Some(match *bytes.first()? {
        byte if byte.is_ascii_whitespace() => (Unit::Space, run(bytes, |byte| byte.is_ascii_whitespace())),
        b'-' if rest.starts_with("--") && (!is_mysql || bytes.get(2).is_none_or(u8::is_ascii_whitespace)) => line(),
        b'#' if is_mysql => line(),
        b'/' if dialect == Dialect::Cql && rest.starts_with("//") => line(),
        b'/' if rest.starts_with("/*") => ended(Unit::BlockComment, comment_end(rest, dialect == Dialect::Postgres)),
        quote @ (b'\'' | b'"') => ended(Unit::Quoted, quote_end(bytes, 1, quote, is_mysql)),
        b'`' if is_mysql => ended(Unit::Quoted, quote_end(bytes, 1, b'`', false)),
        b'e' | b'E' if !is_mysql && bytes.get(1) == Some(&b'\'') => {
            ended(Unit::Quoted, quote_end(bytes, 2, b'\'', true))
        }
        b'$' if !is_mysql => match dollar_tag(rest) {
            Some(tag) => ended(Unit::Quoted, rest[tag..].find(&rest[..tag]).map(|at| tag + at + tag)),
            None => (Unit::Sign(b'$'), 1),
        },
        byte if is_name(byte) => (Unit::Word, run(bytes, |byte| is_name(byte) || byte == b'$')),
        b':' if bytes.get(1).is_some_and(|&byte| is_name(byte) && !byte.is_ascii_digit()) => {
            (Unit::Placeholder, 1 + run(&bytes[1..], is_name))
        }
        // A cast: what follows the second colon is no placeholder.
        b':' if bytes.get(1) == Some(&b':') => {
            let colons = run(bytes, |byte| byte == b':');
            (Unit::Sign(b':'), colons)
        }
        byte => (Unit::Sign(byte), 1),
    })
}

/// How many bytes belong.
fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !belongs(byte)).unwrap_or(bytes.len())
}

/// The end of what starts before `from` and goes to a `quote` that is not doubled (nor behind a backslash).
fn quote_end(bytes: &[u8], from: usize, quote: u8, has_escapes: bool) -> Option<usize> {
    let mut at = from;
    loop {
        match *bytes.get(at)? {
            b'\\' if has_escapes => at += 2,
            byte if byte == quote => {
                if bytes.get(at + 1) != Some(&quote) {
                    return Some(at + 1);
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
}

fn comment_end(rest: &str, nests: bool) -> Option<usize> {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (2, 1);
    loop {
        match bytes.get(at..at + 2)? {
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            b"/*" if nests => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// The length of a dollar quote's tag (`$$` or `$name$`).
fn dollar_tag(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let name = run(&bytes[1..], is_name);
    let is_tag = bytes.get(1 + name) == Some(&b'$') && !bytes[1].is_ascii_digit();
    is_tag.then_some(name + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders(text: &str, dialect: Dialect) -> Vec<&str> {
        Units::new(text, 0, dialect).filter(|piece| piece.unit == Unit::Placeholder).map(|piece| piece.text).collect()
    }

    #[test]
    fn placeholders_are_told_from_everything_that_looks_like_one() {
        let postgres = "select :a, b::int, ':q', \":q\", e'\\':q', $$:q$$, $t$ :q $$ $t$, x$:b /* :q /* :q */ :q */ -- :q\n\
                        , a[1:2], '12:30', :c::text, f(x := 1), E':q', ''':q', :d";
        assert_eq!(placeholders(postgres, Dialect::Postgres), [":a", ":b", ":c", ":d"]);
        let mysql = "select :a, ':q', 'it\\'s :q', `:q`, \":q\" # :q\n, @v := :b /* :q /* */ , 1--:c -- :q\n";
        assert_eq!(placeholders(mysql, Dialect::Mysql), [":a", ":b", ":c"]);
        let cql = "select :a, ':q', 'it''s' // a customer's :q\n, $$:q$$ /* :q /* */ , :b -- :q";
        assert_eq!(placeholders(cql, Dialect::Cql), [":a", ":b"]);
    }

    #[test]
    fn the_units_are_the_text_and_an_open_end_is_told() {
        let text = "select 'ä' || \"é\", :ü -- é";
        let joined: String = Units::new(text, 0, Dialect::Postgres).map(|piece| piece.text).collect();
        assert_eq!(joined, text);
        for open in ["'a", "\"a", "$$ a", "/* a /* */", "e'a\\'"] {
            let last = Units::new(open, 0, Dialect::Postgres).last().unwrap();
            assert_eq!((last.unit, last.text), (Unit::Unterminated, open));
        }
    }
}
