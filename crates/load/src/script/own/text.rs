//! A script of the user's own as text: its statements, and whether they fit into the transaction that is put around them.

use super::super::error::{Mistake, ScriptError};
use super::super::pgbench::{Command, Span, scan};
use super::super::statement::{Reach, Unit, Units, reach};
use super::generator::Wrap;
use crate::sql::Dialect;

/// A statement of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its text.
    pub text: String,
    /// Where it begins, from 1.
    pub line: u32,
    /// What it does beyond its answer.
    pub reach: Reach,
}

/// The statements of a text in order.
///
/// # Errors
/// The text cannot be read by the rules of this dialect.
pub fn read_statements(text: &str, dialect: Dialect) -> Result<Vec<Statement>, ScriptError> {
    let spans = split(text, dialect).map_err(|mistake| mistake.locate("script", text))?;
    let statement = |(start, end): Span| Statement {
        text: text[start..end].to_owned(),
        line: text[..start].matches('\n').count() as u32 + 1,
        reach: reach(&text[start..end], dialect),
    };
    Ok(spans.into_iter().map(statement).collect())
}

/// The text's statements.
pub(super) fn split(text: &str, dialect: Dialect) -> Result<Vec<Span>, Mistake> {
    let mut spans = Vec::new();
    for command in scan(text, dialect)? {
        match command {
            Command::Sql { statements, store: None } if statements.len() == 1 => spans.extend(statements),
            _ => {
                let backslash = Units::new(text, 0, dialect).find(|piece| piece.unit == Unit::Sign(b'\\'));
                let backslash = backslash.map_or(0, |piece| piece.offset);
                let message = "a backslash outside of quotes: meta commands belong in scripts of pgbench";
                return Err(Mistake::new(backslash, message));
            }
        }
    }
    if spans.is_empty() { Err(Mistake::new(0, "there is no statement")) } else { Ok(spans) }
}

/// Refuses what would end the transaction around the statements: what comes after it would be committed by itself, and what
/// is to be rolled back would not be.
pub(super) fn require_fit(text: &str, spans: &[Span], wrap: Wrap, dialect: Dialect) -> Result<(), Mistake> {
    for &(start, end) in spans {
        let Reach { controls, commits, .. } = reach(&text[start..end], dialect);
        if controls && wrap != Wrap::None {
            let message = "the script runs in a transaction that is begun and ended for it: this would end it earlier";
            return Err(Mistake::new(start, message));
        }
        if commits && wrap == Wrap::Rollback {
            let message = "the script is to be rolled back: at this statement the server may commit";
            return Err(Mistake::new(start, message));
        }
    }
    Ok(())
}
