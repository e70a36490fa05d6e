//! From the commands of a pgbench script to a program.

use super::super::error::Mistake;
use super::super::expression::{Expression, parse};
use super::super::names::{Names, Statements};
use super::super::options::Mode;
use super::super::program::{Binding, Fragment, Length, Pause, Step, Stored};
use super::super::statement::{Effect, Kind, Part, Template, classify};
use super::scan::{Command, Span, Store, word};

/// An `\if` whose `\endif` is still to come.
struct Open {
    /// Where its condition, or the last `\elif`'s, jumps when it does not hold; `None` after `\else`.
    branch: Option<usize>,
    /// Jumps from the ends of its parts to the end of all.
    ends: Vec<usize>,
    offset: usize,
}

/// Compiles the commands of one script.
pub(in super::super) struct Compiler<'a> {
    pub(in super::super) source: &'a str,
    pub(in super::super) names: &'a Names,
    pub(in super::super) statements: &'a mut Statements,
    pub(in super::super) mode: Mode,
}

impl Compiler<'_> {
    /// The script's steps.
    pub(in super::super) fn compile(&mut self, commands: &[Command]) -> Result<Vec<Step>, Mistake> {
        let mut steps = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        for command in commands {
            match command {
                Command::Sql { statements, store } => self.sql(statements, store.as_ref(), &mut steps)?,
                Command::Set { name, expression } => {
                    let slot = self.slot(&self.source[name.0..name.1], name.0)?;
                    steps.push(Step::Set(slot, self.expression(*expression)?));
                }
                Command::Sleep(arguments) => steps.push(Step::Sleep(self.sleep(*arguments)?)),
                Command::If(condition) => {
                    open.push(Open { branch: Some(steps.len()), ends: Vec::new(), offset: condition.0 - "\\if".len() });
                    steps.push(Step::Unless(self.expression(*condition)?, 0));
                }
                Command::Elif(condition) => {
                    let block = turn(&mut open, &mut steps, condition.0 - "\\elif".len(), "\\elif")?;
                    block.branch = Some(steps.len());
                    steps.push(Step::Unless(self.expression(*condition)?, 0));
                }
                Command::Else(offset) => _ = turn(&mut open, &mut steps, *offset, "\\else")?,
                Command::Endif(offset) => {
                    let block = open.pop().ok_or_else(|| Mistake::new(*offset, "\\endif without \\if"))?;
                    for jump in block.branch.into_iter().chain(block.ends) {
                        aim(&mut steps, jump);
                    }
                }
            }
        }
        match open.pop() {
            Some(block) => Err(Mistake::new(block.offset, "\\if without \\endif")),
            None => Ok(steps),
        }
    }

    fn slot(&self, name: &str, offset: usize) -> Result<u32, Mistake> {
        let unset = || Mistake::new(offset, format!("nothing sets the variable :{name}"));
        self.names.find(name).ok_or_else(unset)
    }

    fn expression(&self, (start, end): Span) -> Result<Expression, Mistake> {
        parse(&self.source[start..end], &|name| self.names.find(name))
            .map_err(|mistake| Mistake { offset: start + mistake.offset, ..mistake })
    }

    fn sleep(&self, arguments: Span) -> Result<Pause, Mistake> {
        let missing = || Mistake::new(arguments.0, "\\sleep needs a time");
        let (start, end) = word(self.source, arguments).ok_or_else(missing)?;
        let unit = word(self.source, (end, arguments.1));
        if let Some((extra, _)) = unit.and_then(|(_, end)| word(self.source, (end, arguments.1))) {
            return Err(Mistake::new(extra, "\\sleep takes a time and a unit"));
        }
        let time = &self.source[start..end];
        if let Some(name) = time.strip_prefix(':') {
            let length = Length::Variable(self.slot(name, start)?);
            return Ok(Pause { length, unit_us: unit_us(unit.map_or("s", |(from, to)| &self.source[from..to]), end)? });
        }
        let digits = time.len() - time.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '+').len();
        let (number, attached) = time.split_at(digits);
        let unit = match unit {
            Some((from, to)) if attached.is_empty() => (&self.source[from..to], from),
            None if attached.is_empty() => ("s", start),
            _ => (attached, start + digits),
        };
        let invalid = |_| Mistake::new(start, format!("\\sleep needs a whole number, found {time:?}"));
        let unit_us = if attached.starts_with('.') { 1 } else { unit_us(unit.0, unit.1)? };
        let number = if attached.starts_with('.') { time } else { number };
        Ok(Pause { length: Length::Fixed(number.parse().map_err(invalid)?), unit_us })
    }

    /// One SQL command. Statements joined by `\;` go as one text, unless a row of one is wanted: then each goes by itself.
    fn sql(&mut self, spans: &[Span], store: Option<&Store>, steps: &mut Vec<Step>) -> Result<(), Mistake> {
        match (spans, store) {
            (&[span], None) => steps.push(self.statement(span, None)?),
            (_, None) => steps.push(self.together(spans)?),
            (_, Some(store)) => {
                for (&span, names) in spans.iter().zip(&store.names) {
                    let slots: Result<Box<[u32]>, _> = names.iter().map(|name| self.slot(name, store.offset)).collect();
                    let stored = Stored { slots: slots?, required: !store.all };
                    steps.push(self.statement(span, (!stored.slots.is_empty()).then_some(stored))?);
                }
            }
        }
        Ok(())
    }

    fn statement(&mut self, span: Span, stored: Option<Stored>) -> Result<Step, Mistake> {
        let names = self.names;
        let dialect = self.statements.dialect;
        let template = Template::read(self.source, span, dialect, &|name| names.find(name).is_some())?;
        let (kind, effect) = classify(&self.source[span.0..span.1], dialect);
        match kind {
            Kind::Begin => return Ok(Step::Begin),
            Kind::Commit => return Ok(Step::Commit),
            Kind::Rollback => return Ok(Step::Rollback),
            Kind::Query if self.mode == Mode::Prepared && !template.is_text_only => {}
            _ => return Ok(written(self.fragments(&template)?, effect, stored)),
        }
        self.fragments(&template)?;
        // As pgbench: each use may be of another type, and PostgreSQL gives a number one type.
        let (text, names) = template.prepared(dialect, &|_| true)?;
        let bindings = names.iter().filter_map(|name| self.names.find(name)).map(Binding::of).collect();
        Ok(Step::Prepared(self.statements.add(text), bindings, stored))
    }

    /// Several statements as one text.
    fn together(&self, spans: &[Span]) -> Result<Step, Mistake> {
        let mut all = Vec::new();
        let mut effect = Effect::Nothing;
        for &span in spans {
            let dialect = self.statements.dialect;
            let template = Template::read(self.source, span, dialect, &|name| self.names.find(name).is_some())?;
            if !all.is_empty() {
                all.push(Fragment::Sql("; ".to_owned()));
            }
            all.extend(self.fragments(&template)?);
            match classify(&self.source[span.0..span.1], dialect).1 {
                Effect::Nothing => {}
                last => effect = last,
            }
        }
        Ok(written(all, effect, None))
    }

    fn fragments(&self, template: &Template<'_>) -> Result<Vec<Fragment>, Mistake> {
        let fragment = |part: &Part<'_>| match *part {
            Part::Sql(sql) => Ok(Fragment::Sql(sql.to_owned())),
            Part::Name(name, offset) => self.slot(name, offset).map(|slot| Fragment::Value(Binding::of(slot))),
        };
        template.parts.iter().map(fragment).collect()
    }
}

impl Binding {
    fn of(slot: u32) -> Self {
        Self { slot, generator: None }
    }
}

/// A text to send: fixed when no value is put into it.
pub(in super::super) fn written(fragments: Vec<Fragment>, effect: Effect, stored: Option<Stored>) -> Step {
    let mut joined: Vec<Fragment> = Vec::new();
    for fragment in fragments {
        match (joined.last_mut(), fragment) {
            (Some(Fragment::Sql(text)), Fragment::Sql(more)) => text.push_str(&more),
            (_, fragment) => joined.push(fragment),
        }
    }
    if let Some(Fragment::Sql(first)) = joined.first_mut() {
        *first = first.trim_start().to_owned();
    }
    if let Some(Fragment::Sql(last)) = joined.last_mut() {
        last.truncate(last.trim_end().len());
    }
    match &joined[..] {
        [Fragment::Sql(text)] => Step::Fixed(text.as_str().into(), effect, stored),
        _ => Step::Written(joined.into(), effect, stored),
    }
}

/// `\elif` or `\else`: ends the part before it.
fn turn<'o>(open: &'o mut [Open], steps: &mut Vec<Step>, offset: usize, name: &str) -> Result<&'o mut Open, Mistake> {
    let block = open.last_mut().ok_or_else(|| Mistake::new(offset, format!("{name} without \\if")))?;
    let Some(branch) = block.branch.take() else {
        return Err(Mistake::new(offset, format!("{name} after \\else")));
    };
    block.ends.push(steps.len());
    steps.push(Step::Jump(0));
    aim(steps, branch);
    Ok(block)
}

/// Lets the jump at this step go to the next step that will be written.
fn aim(steps: &mut [Step], jump: usize) {
    let end = steps.len();
    if let Some(Step::Unless(_, target) | Step::Jump(target)) = steps.get_mut(jump) {
        *target = end;
    }
}

fn unit_us(unit: &str, offset: usize) -> Result<u64, Mistake> {
    match unit.to_ascii_lowercase().as_str() {
        "us" => Ok(1),
        "ms" => Ok(1_000),
        "s" => Ok(1_000_000),
        _ => Err(Mistake::new(offset, format!("the unit must be us, ms or s, found {unit:?}"))),
    }
}
