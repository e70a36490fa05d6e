//! A statement with named placeholders, on its way to a prepared statement or a text.

use super::super::error::Mistake;
use super::super::word::is_name;
use super::lexer::{Piece, Unit, Units};
use crate::sql::Dialect;

/// A part of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Part<'a> {
    /// SQL as it is.
    Sql(&'a str),
    /// A placeholder: its name without the colon, and where its colon stands.
    Name(&'a str, usize),
}

/// A statement in parts, without its line comments.
#[derive(Debug)]
pub(in super::super) struct Template<'a> {
    pub(in super::super) parts: Vec<Part<'a>>,
    /// Whether a placeholder stands in a string, or goes on a name, so that only its text can be put there.
    pub(in super::super) is_text_only: bool,
    /// Where the driver's own kind of placeholder stands.
    foreign: Option<usize>,
}

impl<'a> Template<'a> {
    /// Reads `source[start..end]`; offsets count from the start of `source`. A `:name` within quotes is a placeholder when
    /// `is_known` says so.
    pub(in super::super) fn read(
        source: &'a str,
        (start, end): (usize, usize),
        dialect: Dialect,
        is_known: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Mistake> {
        let mut template = Self { parts: Vec::new(), is_text_only: false, foreign: None };
        let mut before = None::<Piece<'_>>;
        for piece in Units::new(&source[..end], start, dialect) {
            match piece.unit {
                Unit::LineComment => {}
                Unit::Unterminated => return Err(Mistake::new(piece.offset, "a string or comment that does not end")),
                Unit::Placeholder => {
                    template.is_text_only |= before.is_some_and(|piece| piece.is_name());
                    template.parts.push(Part::Name(&piece.text[1..], piece.offset));
                }
                Unit::Quoted => template.quoted(piece, is_known),
                _ => template.parts.push(Part::Sql(piece.text)),
            }
            let is_foreign = match dialect {
                Dialect::Postgres => {
                    before.is_some_and(|piece| piece.unit == Unit::Sign(b'$'))
                        && piece.text.starts_with(|c: char| c.is_ascii_digit())
                }
                Dialect::Mysql | Dialect::Cql => piece.unit == Unit::Sign(b'?'),
            };
            if is_foreign {
                template.foreign.get_or_insert(piece.offset);
            }
            before = Some(piece);
        }
        Ok(template)
    }

    fn quoted(&mut self, piece: Piece<'a>, is_known: &dyn Fn(&str) -> bool) {
        let mut rest = 0;
        for (colon, _) in piece.text.match_indices(':') {
            let after = &piece.text[colon + 1..];
            let name = &after[..after.bytes().position(|byte| !is_name(byte)).unwrap_or(after.len())];
            if colon >= rest && is_known(name) {
                self.parts.extend([Part::Sql(&piece.text[rest..colon]), Part::Name(name, piece.offset + colon)]);
                self.is_text_only = true;
                rest = colon + 1 + name.len();
            }
        }
        self.parts.push(Part::Sql(&piece.text[rest..]));
    }

    /// The text to prepare and the names of its parameters in order. A name's number is reused unless `is_fresh` says that
    /// each of its placeholders has a value of its own.
    pub(in super::super) fn prepared(
        &self,
        dialect: Dialect,
        is_fresh: &dyn Fn(&str) -> bool,
    ) -> Result<(String, Vec<&'a str>), Mistake> {
        if let Some(offset) = self.foreign {
            return Err(Mistake::new(offset, "a placeholder must be written as :name"));
        }
        let mut text = String::new();
        let mut names: Vec<&str> = Vec::new();
        for part in &self.parts {
            match *part {
                Part::Sql(sql) => text.push_str(sql),
                Part::Name(name, _) => {
                    let known = names.iter().position(|&known| known == name).filter(|_| !is_fresh(name));
                    let reused = known.filter(|_| dialect == Dialect::Postgres);
                    let number = reused.unwrap_or(names.len());
                    if reused.is_none() {
                        names.push(name);
                    }
                    match dialect {
                        Dialect::Postgres => text.push_str(&format!("${}", number + 1)),
                        Dialect::Mysql | Dialect::Cql => text.push('?'),
                    }
                }
            }
        }
        Ok((text.trim().to_owned(), names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dialect: Dialect) -> Template<'_> {
        Template::read(text, (0, text.len()), dialect, &|name| name == "a").unwrap()
    }

    #[test]
    fn placeholders_become_those_of_the_driver() {
        let text = " select :a, :b::int -- :c\n + :a ";
        let postgres = read(text, Dialect::Postgres).prepared(Dialect::Postgres, &|_| false).unwrap();
        assert_eq!(postgres, ("select $1, $2::int \n + $1".to_owned(), vec!["a", "b"]));
        let fresh = read(text, Dialect::Postgres).prepared(Dialect::Postgres, &|name| name == "a").unwrap();
        assert_eq!(fresh, ("select $1, $2::int \n + $3".to_owned(), vec!["a", "b", "a"]));
        let mysql = read(text, Dialect::Mysql).prepared(Dialect::Mysql, &|_| false).unwrap();
        assert_eq!(mysql, ("select ?, ?::int \n + ?".to_owned(), vec!["a", "b", "a"]));
    }

    #[test]
    fn known_names_within_quotes_are_placeholders() {
        let template = read("select 'x:a:b'", Dialect::Postgres);
        assert!(template.is_text_only);
        let expected = [Part::Sql("select"), Part::Sql(" "), Part::Sql("'x"), Part::Name("a", 9), Part::Sql(":b'")];
        assert_eq!(template.parts, expected);
        assert!(!read("select '12:30', ':b'", Dialect::Postgres).is_text_only);
    }

    #[test]
    fn a_name_that_a_placeholder_completes_has_no_parameter() {
        assert!(read("select 1 from t_:a", Dialect::Postgres).is_text_only);
        assert!(!read("select f(:a),:b[1:a] from t where c=:a", Dialect::Postgres).is_text_only);
    }

    #[test]
    fn the_driver_s_own_placeholders_are_refused() {
        let mistake = read("select $1", Dialect::Postgres).prepared(Dialect::Postgres, &|_| false).unwrap_err();
        assert_eq!((mistake.offset, mistake.message.as_str()), (8, "a placeholder must be written as :name"));
        assert!(read("select ?", Dialect::Mysql).prepared(Dialect::Mysql, &|_| false).is_err());
        assert!(read("select a ? 'x'", Dialect::Postgres).prepared(Dialect::Postgres, &|_| false).is_ok());
    }
}
