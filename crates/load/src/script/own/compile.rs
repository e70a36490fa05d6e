//! From the user's own transaction to a program.

use std::collections::HashMap;

use super::super::error::{Mistake, ScriptError};
use super::super::names::{Names, Statements};
use super::super::options::Mode;
use super::super::pgbench::{Span, written};
use super::super::program::{Binding, Fragment, Program, Step};
use super::super::statement::{Effect, Kind, Part, Template, classify};
use super::draw::{Drawn, How};
use super::generator::{Generator, Parameter, Transaction, Wrap};
use super::text::{require_fit, split};
use crate::sql::Dialect;

/// What compiling a transaction adds to.
pub(in super::super) struct Tables<'a> {
    pub(in super::super) names: &'a mut Names,
    pub(in super::super) statements: &'a mut Statements,
    pub(in super::super) generators: &'a mut Vec<Drawn>,
    /// How many serials there are.
    pub(in super::super) n_counters: &'a mut u32,
    pub(in super::super) mode: Mode,
}

/// The placeholders of one transaction, and whether each of their uses has a value of its own.
type Placeholders<'a> = HashMap<&'a str, (Binding, bool)>;

/// Compiles one transaction.
pub(in super::super) fn compile(transaction: &Transaction, tables: &mut Tables<'_>) -> Result<Program, ScriptError> {
    let Transaction { label, file, text, parameters, .. } = transaction;
    let first = tables.names.initial.len() as u32;
    let mut placeholders = HashMap::new();
    for parameter in parameters {
        declare(parameter, tables, &mut placeholders).map_err(|message| ScriptError::whole(file, message))?;
    }
    let body = split(text, tables.statements.dialect)
        .and_then(|spans| {
            require_fit(text, &spans, transaction.wrap, tables.statements.dialect)?;
            spans.into_iter().map(|span| statement(text, span, tables, &placeholders)).collect()
        })
        .map_err(|mistake: Mistake| mistake.locate(file, text))?;
    let steps = wrap(body, transaction.wrap);
    let own = first..tables.names.initial.len() as u32;
    Ok(Program { label: label.clone(), steps, own })
}

fn wrap(body: Vec<Step>, wrap: Wrap) -> Vec<Step> {
    let last = match wrap {
        Wrap::None => return body,
        Wrap::Commit => Step::Commit,
        Wrap::Rollback => Step::Rollback,
    };
    [Step::Begin].into_iter().chain(body).chain([last]).collect()
}

fn declare<'a>(
    parameter: &'a Parameter,
    tables: &mut Tables<'_>,
    placeholders: &mut Placeholders<'a>,
) -> Result<(), String> {
    let Parameter { names, generator, each, null_share } = parameter;
    let described = names.join(", ");
    let wrong = |message: String| format!(":{described}: {message}");
    generator.check().map_err(wrong)?;
    if names.len() != generator.width() || names.is_empty() {
        return Err(wrong(format!("{} names for {} values", names.len(), generator.width())));
    }
    if !(0.0..=1.0).contains(null_share) {
        return Err(wrong(format!("null_share={null_share} must be from 0 to 1")));
    }
    if *each && names.len() > 1 {
        return Err(wrong("each=true would tear rows of several columns apart".to_owned()));
    }
    let how = How::new(generator, *tables.n_counters).map_err(wrong)?;
    if matches!(how, How::Serial { .. }) {
        *tables.n_counters += 1;
    }
    let drawn: Vec<How> = match generator {
        Generator::Rows { rows, .. } => {
            let row = tables.names.anonymous();
            let generator = tables.generators.len() as u32;
            tables.generators.push(Drawn { each: *each, null_share: 0.0, how });
            let column = |i: usize| rows.iter().map(|row| row[i].clone()).collect();
            (0..names.len()).map(|i| How::Column { row, generator, values: column(i) }).collect()
        }
        _ => vec![how],
    };
    for (name, how) in names.iter().zip(drawn) {
        let binding = Binding { slot: tables.names.anonymous(), generator: Some(tables.generators.len() as u32) };
        tables.generators.push(Drawn { each: *each, null_share: *null_share, how });
        if placeholders.insert(name, (binding, *each)).is_some() {
            return Err(wrong(format!("there are two generators for :{name}")));
        }
    }
    Ok(())
}

fn statement(
    text: &str,
    span: Span,
    tables: &mut Tables<'_>,
    placeholders: &Placeholders<'_>,
) -> Result<Step, Mistake> {
    let dialect = tables.statements.dialect;
    let template = Template::read(text, span, dialect, &|_| false)?;
    for part in &template.parts {
        if let Part::Name(name, offset) = *part
            && !placeholders.contains_key(name)
        {
            return Err(Mistake::new(offset, format!(":{name} has no generator")));
        }
    }
    let binding = |name: &str| placeholders[name].0;
    let is_text = |part: &Part<'_>| match *part {
        Part::Name(name, _) => binding(name).generator.is_some_and(|at| tables.generators[at as usize].how.is_text()),
        Part::Sql(_) => false,
    };
    // A text in quotes is one for few of Cassandra's types: only what is prepared gets the values that its columns have.
    let is_typed = dialect == Dialect::Cql && template.parts.iter().any(is_text);
    match classify(&text[span.0..span.1], dialect) {
        (Kind::Begin, _) => Ok(Step::Begin),
        (Kind::Commit, _) => Ok(Step::Commit),
        (Kind::Rollback, _) => Ok(Step::Rollback),
        (kind, _) if tables.mode == Mode::Prepared && (kind == Kind::Query || is_typed) => {
            let (prepared, names) = template.prepared(dialect, &|name| placeholders[name].1)?;
            let bindings = names.into_iter().map(binding).collect();
            Ok(Step::Prepared(tables.statements.add(prepared), bindings, None))
        }
        (_, effect) => Ok(as_text(&template, &binding, effect)),
    }
}

/// A statement that cannot be prepared: values stand in its text, as literals.
fn as_text(template: &Template<'_>, binding: &dyn Fn(&str) -> Binding, effect: Effect) -> Step {
    let fragment = |part: &Part<'_>| match *part {
        Part::Sql(sql) => Fragment::Sql(sql.to_owned()),
        Part::Name(name, _) => Fragment::Literal(binding(name)),
    };
    written(template.parts.iter().map(fragment).collect(), effect, None)
}
