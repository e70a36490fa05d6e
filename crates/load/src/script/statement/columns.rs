//! The names of a statement's result columns, read from its text: the variables that `\gset` sets.
//!
//! They are known before the run, so that a variable that nothing sets is found then, and not by the server.

use super::lexer::{Piece, Unit, Units};
use crate::sql::Dialect;

/// The column names of what the statement returns, or which column has none that can be told from the text (from 1); `None`
/// when it returns no rows.
pub(in super::super) fn columns(text: &str, dialect: Dialect) -> Option<Result<Vec<String>, usize>> {
    let significant = |piece: &Piece<'_>| !matches!(piece.unit, Unit::Space | Unit::LineComment | Unit::BlockComment);
    let pieces: Vec<Piece<'_>> = Units::new(text, 0, dialect).filter(significant).collect();
    let list = result_list(&pieces)?;
    let named = split(list).into_iter().enumerate().map(|(i, item)| name(item).ok_or(i + 1));
    Some(named.collect())
}

fn is_word(piece: &Piece<'_>, words: &[&str]) -> bool {
    piece.unit == Unit::Word && words.iter().any(|word| piece.text.eq_ignore_ascii_case(word))
}

/// Every piece with how many brackets are open around it.
fn with_depth<'p, 'a>(pieces: &'p [Piece<'a>]) -> impl Iterator<Item = (usize, &'p Piece<'a>, i32)> {
    let mut depth = 0;
    pieces.iter().enumerate().map(move |(i, piece)| {
        let before = depth;
        match piece.unit {
            Unit::Sign(b'(' | b'[') => depth += 1,
            Unit::Sign(b')' | b']') => depth -= 1,
            _ => {}
        }
        (i, piece, before.min(depth))
    })
}

/// What stands between SELECT or RETURNING and the next clause.
fn result_list<'p, 'a>(pieces: &'p [Piece<'a>]) -> Option<&'p [Piece<'a>]> {
    const AFTER: [&str; 17] = [
        "from",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "for",
        "union",
        "intersect",
        "except",
        "window",
        "fetch",
        "into",
        "returning",
        "on",
        "lock",
    ];
    let at_depth_0 = |words: &[&str]| {
        with_depth(pieces).find(|(_, piece, depth)| *depth == 0 && is_word(piece, words)).map(|(i, ..)| i)
    };
    let mut start = at_depth_0(&["returning"]).or_else(|| {
        // The first of them says what the statement is; behind SELECT they are functions, or those of FOR UPDATE.
        at_depth_0(&["select", "insert", "update", "delete", "merge", "replace"])
            .filter(|&i| is_word(&pieces[i], &["select"]))
    })? + 1;
    while pieces.get(start).is_some_and(|piece| is_word(piece, &["all", "distinct"])) {
        start += 1;
    }
    let list = &pieces[start + distinct_on(&pieces[start..])..];
    // Of IS DISTINCT FROM it is no clause.
    let is_clause = |i: usize| is_word(&list[i], &AFTER) && (i == 0 || !is_word(&list[i - 1], &["distinct"]));
    let end =
        with_depth(list).find(|(i, piece, depth)| *depth == 0 && (is_clause(*i) || piece.unit == Unit::Sign(b';')));
    Some(&list[..end.map_or(list.len(), |(i, ..)| i)])
}

/// How many pieces ON and its brackets are, which may stand behind DISTINCT.
fn distinct_on(pieces: &[Piece<'_>]) -> usize {
    if !pieces.first().is_some_and(|piece| is_word(piece, &["on"])) {
        return 0;
    }
    let closes = |(_, piece, depth): &(usize, &Piece<'_>, i32)| *depth == 0 && piece.unit == Unit::Sign(b')');
    with_depth(pieces).find(closes).map_or(0, |(i, ..)| i + 1)
}

/// The parts between commas outside of brackets.
fn split<'p, 'a>(list: &'p [Piece<'a>]) -> Vec<&'p [Piece<'a>]> {
    let is_comma = |piece: &Piece<'_>| piece.unit == Unit::Sign(b',');
    let commas = with_depth(list).filter(|(_, piece, depth)| *depth == 0 && is_comma(piece)).map(|(i, ..)| i);
    let mut items = Vec::new();
    let mut start = 0;
    for comma in commas.chain([list.len()]) {
        items.push(&list[start..comma]);
        start = comma + 1;
    }
    items
}

/// The name that the server gives a column: its alias, the last part of a plain column, or the function's.
fn name(item: &[Piece<'_>]) -> Option<String> {
    const NO_ALIAS: [&str; 4] = ["end", "null", "true", "false"];
    let is_name = |piece: &Piece<'_>| match piece.unit {
        Unit::Word => piece.is_name() && !is_word(piece, &NO_ALIAS),
        Unit::Quoted => piece.text.starts_with(['"', '`']),
        _ => false,
    };
    let (last, before) = item.split_last()?;
    match before.last() {
        None => return is_name(last).then(|| unquoted(last)),
        // Two operands side by side: the second is an alias, with or without AS.
        Some(previous) if is_name(last) && ends_operand(previous) && !is_word(previous, &["over", "collate"]) => {
            return Some(unquoted(last));
        }
        Some(_) => {}
    }
    if let Some(cast) = item.iter().position(|piece| piece.unit == Unit::Sign(b':') && piece.text == "::") {
        return name(&item[..cast]);
    }
    let call = item.iter().position(|piece| piece.unit == Unit::Sign(b'(')).unwrap_or(item.len());
    let closes_at_end =
        with_depth(item).skip(call + 1).find(|(_, _, depth)| *depth == 0).is_none_or(|(i, ..)| i + 1 == item.len());
    let path = &item[..call];
    let is_path = path.len() % 2 == 1
        && path
            .iter()
            .enumerate()
            .all(|(i, piece)| if i % 2 == 0 { is_name(piece) } else { piece.unit == Unit::Sign(b'.') });
    let named = path.last().filter(|_| is_path && closes_at_end)?;
    if path.len() > 1 || call == item.len() {
        return Some(unquoted(named));
    }
    of_call(named, item.get(call + 1..item.len() - 1)?)
}

/// The name of a call: the function's, but for words that stand for functions of other names.
fn of_call(function: &Piece<'_>, inside: &[Piece<'_>]) -> Option<String> {
    match function.text.to_ascii_lowercase().as_str() {
        // It is called as what it casts.
        "cast" if !inside.first().is_some_and(|piece| is_word(piece, &["cast"])) => {
            let (end, ..) = with_depth(inside).find(|(_, piece, depth)| *depth == 0 && is_word(piece, &["as"]))?;
            name(&inside[..end])
        }
        // A cast within a cast is left to an alias; trim is btrim, ltrim or rtrim.
        "cast" | "trim" => None,
        _ => Some(unquoted(function)),
    }
}

fn ends_operand(piece: &Piece<'_>) -> bool {
    matches!(piece.unit, Unit::Word | Unit::Quoted | Unit::Placeholder | Unit::Sign(b')' | b']'))
}

fn unquoted(piece: &Piece<'_>) -> String {
    match piece.text.as_bytes() {
        [quote @ (b'"' | b'`'), .., _] => {
            let quote = *quote as char;
            piece.text[1..piece.text.len() - 1].replace(&format!("{quote}{quote}"), &quote.to_string())
        }
        _ => piece.text.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_server_gives() {
        let cases: [(&str, &[&str]); 22] = [
            ("select 1 as one, 2 two", &["one", "two"]),
            ("SELECT a, t.b, s.t.C FROM t", &["a", "b", "c"]),
            ("select count(*), max(x) + 1 AS m from t", &["count", "m"]),
            ("select \"Big\", x AS \"a\"\"b\" from t", &["Big", "a\"b"]),
            ("select distinct a from (select b as c from u) x", &["a"]),
            ("select distinct on (a, (b + 1)) a, c as d from t order by a", &["a", "d"]),
            ("select a is distinct from b as c, d is not distinct from 1 as e from t", &["c", "e"]),
            ("with c as (select 1 as n) select n from c", &["n"]),
            ("insert into t (a) values (1) returning id, a as b", &["id", "b"]),
            ("update t set a = (select 1 as no) where id = 3 returning a", &["a"]),
            ("select a::int, (b)::text as c, b::numeric(3, 1) d", &["a", "c", "d"]),
            ("select case when 1 = 1 then 2 end as x, :v as y", &["x", "y"]),
            ("select pg_catalog.now() at_time, f(a, (b)) limit 1", &["at_time", "f"]),
            ("select a /* b */ , -- c\n d", &["a", "d"]),
            ("select 'x' y union select 'z'", &["y"]),
            ("select (1 + 2) three", &["three"]),
            ("select cast(t.a as int), Cast(f(b, 1) AS numeric(3, 1)), cast(c as text) d", &["a", "f", "d"]),
            ("select t.cast, t.trim, s.trim(a) from t", &["cast", "trim", "trim"]),
            ("select a from t where id = 1 for update", &["a"]),
            ("select a, b c from t for no key update of t skip locked", &["a", "c"]),
            ("with u as (update v set x = 1 returning x) select x from u for update", &["x"]),
            ("select replace(a, 'x', 'y') as r, sum(b) over w as s from t window w as (order by c)", &["r", "s"]),
        ];
        for (text, names) in cases {
            let found = columns(text, Dialect::Postgres).unwrap().unwrap();
            assert_eq!(found, names, "{text}");
        }
    }

    #[test]
    fn what_has_no_name_and_what_returns_nothing() {
        for (text, column) in [
            ("select 1", 1),
            ("select a, b + 1", 2),
            ("select *", 1),
            ("select f(x) + 1", 1),
            ("select a, sum(b) over w from t window w as (order by c)", 2),
            ("select a collate \"C\" from t", 1),
            ("select a, trim(b) from t", 2),
            ("select cast(1 as int), b from t", 1),
            ("select cast(", 1),
            ("select cast(cast(a as int) as text)", 1),
        ] {
            assert_eq!(columns(text, Dialect::Postgres), Some(Err(column)), "{text}");
        }
        for text in ["update t set a = 1", "with c as (select 1) insert into t select a from c", "vacuum", ""] {
            assert_eq!(columns(text, Dialect::Postgres), None, "{text}");
        }
    }
}
