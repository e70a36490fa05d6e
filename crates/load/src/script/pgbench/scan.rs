//! Splits a pgbench script into its SQL commands and meta commands.

use super::super::error::Mistake;
use super::super::statement::{Unit, Units, columns, executed};
use super::super::word::is_name;
use crate::sql::Dialect;

/// A stretch of the script, as byte offsets.
pub(in super::super) type Span = (usize, usize);

/// One command of a script.
#[derive(Debug)]
pub(in super::super) enum Command {
    /// SQL statements that are sent at once (more than one when `\;` stands between them).
    Sql {
        statements: Vec<Span>,
        store: Option<Store>,
    },
    /// `\set` with its name and expression.
    Set {
        name: Span,
        expression: Span,
    },
    /// `\sleep` with its arguments.
    Sleep(Span),
    If(Span),
    Elif(Span),
    Else(usize),
    Endif(usize),
}

/// `\gset` and `\aset`.
#[derive(Debug)]
pub(in super::super) struct Store {
    /// Where the backslash stands.
    pub(in super::super) offset: usize,
    /// Whether every statement's last row is stored and none is required (`\aset`).
    pub(in super::super) all: bool,
    /// For every statement the variables that its columns set; empty when nothing of it is stored.
    pub(in super::super) names: Vec<Vec<String>>,
}

/// Reads a whole script.
pub(in super::super) fn scan(source: &str, dialect: Dialect) -> Result<Vec<Command>, Mistake> {
    let units = Units::new(source, 0, dialect);
    let body = Body::default();
    let mut scanner = Scanner { source, dialect, units, commands: Vec::new(), statements: Vec::new(), start: 0, body };
    scanner.run()?;
    if dialect == Dialect::Mysql {
        for command in &scanner.commands {
            let Command::Sql { statements, .. } = command else { continue };
            statements.iter().try_for_each(|&span| require_whole(source, span))?;
        }
    }
    Ok(scanner.commands)
}

/// Refuses the first half of what MySQL and MariaDB read as one statement although it has semicolons of its own: where it
/// ends only their parser knows.
fn require_whole(source: &str, (start, end): Span) -> Result<(), Mistake> {
    let mut depth = 0_i32;
    let words: Vec<String> = Units::new(&source[..end], start, Dialect::Mysql)
        .filter(|piece| {
            depth += i32::from(piece.unit == Unit::Sign(b'(')) - i32::from(piece.unit == Unit::Sign(b')'));
            piece.unit == Unit::Word && depth == 0
        })
        .map(|piece| piece.text.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let message = match words[..] {
        ["delimiter", ..] => {
            "DELIMITER is a command of the mysql client; in a script every semicolon ends a statement".to_owned()
        }
        ["begin", "not", "atomic", ..] => of_several("BEGIN NOT ATOMIC"),
        ["create", ..] if is_first_half(&words) => of_several("the body of a routine, a trigger or an event"),
        _ => return Ok(()),
    };
    Err(Mistake::new(start, message))
}

fn of_several(what: &str) -> String {
    format!(
        "{what} cannot hold several statements in a script, where every semicolon ends one; create a routine with the \
         mysql client before the study, and CALL it here"
    )
}

/// Whether a CREATE has begun a body with statements of its own: a block, a loop, or an IF or CASE without its END.
fn is_first_half(words: &[&str]) -> bool {
    let others = ["table", "view", "index"];
    let routines = ["procedure", "function", "trigger", "event", "package"];
    let Some(at) = words.iter().position(|word| others.contains(word) || routines.contains(word)) else { return false };
    let n = |word: &str| words[at..].iter().filter(|&&other| other == word).count();
    let is_branch = n("then") > 0 && (n("case") == 0 || n("case") != n("end"));
    routines.contains(&words[at]) && (n("begin") + n("loop") + n("while") > 0 || is_branch)
}

/// Whether a statement of PostgreSQL stands in the body of a function or procedure in SQL, which has semicolons of its own:
/// `CREATE FUNCTION … BEGIN ATOMIC …; …; END`.
#[derive(Default)]
struct Body {
    /// The statement's first words, as many as `CREATE OR REPLACE FUNCTION` has.
    first: Vec<String>,
    /// The last word, quoted name or sign.
    last: String,
    /// How many ENDs are missing: of the body, and of a CASE in it.
    depth: u32,
}

impl Body {
    fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// Takes the next unit of the statement. In brackets only a CASE may stand, with its END.
    fn take(&mut self, unit: Unit, text: &str, is_in_brackets: bool) {
        if matches!(unit, Unit::Space | Unit::LineComment | Unit::BlockComment) {
            return;
        }
        let text = text.to_ascii_lowercase();
        let is_name = matches!(self.last.as_str(), "." | "as");
        if unit == Unit::Word && !is_in_brackets {
            match text.as_str() {
                "atomic" if self.last == "begin" && self.depth == 0 && self.is_routine() => self.depth = 1,
                "case" if self.is_open() && !is_name => self.depth += 1,
                "end" if self.is_open() && !is_name => self.depth -= 1,
                _ => {}
            }
        }
        if self.first.len() < 4 {
            self.first.push(text.clone());
        }
        self.last = text;
    }

    fn is_routine(&self) -> bool {
        let first: Vec<&str> = self.first.iter().map(String::as_str).collect();
        matches!(
            first[..],
            ["create", "function" | "procedure", ..] | ["create", "or", "replace", "function" | "procedure"]
        )
    }
}

struct Scanner<'a> {
    source: &'a str,
    dialect: Dialect,
    units: Units<'a>,
    commands: Vec<Command>,
    /// Statements of the command being read that `\;` has ended.
    statements: Vec<Span>,
    /// Where the statement being read starts.
    start: usize,
    body: Body,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) -> Result<(), Mistake> {
        let mut depth = 0_i32;
        while let Some(piece) = self.units.next() {
            if self.dialect == Dialect::Postgres {
                self.body.take(piece.unit, piece.text, depth > 0);
            }
            match piece.unit {
                Unit::Unterminated => return Err(Mistake::new(piece.offset, "a string or comment that does not end")),
                Unit::Sign(b'(') => depth += 1,
                Unit::Sign(b')') => depth -= 1,
                Unit::Sign(b';') if depth <= 0 && (self.body.is_open() || self.is_within_batch(piece.offset)) => {}
                Unit::Sign(b';') if depth <= 0 => self.finish(piece.offset, None),
                Unit::Sign(b'\\') if self.source[piece.offset..].starts_with("\\;") => {
                    self.cut(piece.offset);
                    self.units.next();
                    self.start = self.units.offset();
                }
                Unit::Sign(b'\\') => {
                    self.meta(piece.offset)?;
                    depth = 0;
                }
                _ => {}
            }
        }
        self.finish(self.source.len(), None);
        Ok(())
    }

    /// Whether a batch of Cassandra is open there: a semicolon ends one of its parts, and it goes to APPLY BATCH.
    fn is_within_batch(&self, end: usize) -> bool {
        if self.dialect != Dialect::Cql {
            return false;
        }
        let words = Units::new(&self.source[..end], self.start, self.dialect).filter(|piece| piece.unit == Unit::Word);
        let words: Vec<String> = words.map(|piece| piece.text.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        matches!(words[..], ["begin", "batch", ..] | ["begin", _, "batch", ..])
            && !matches!(words[..], [.., "apply", "batch"])
    }

    /// Ends a statement, unless nothing but space and comments was read.
    fn cut(&mut self, end: usize) {
        self.body = Body::default();
        if let Some(start) = beginning(&self.source[..end], self.start, self.dialect) {
            self.statements.push((start, end));
        }
    }

    /// Ends an SQL command.
    fn finish(&mut self, end: usize, store: Option<Store>) {
        self.cut(end);
        self.start = self.units.offset();
        let statements = std::mem::take(&mut self.statements);
        if !statements.is_empty() {
            self.commands.push(Command::Sql { statements, store });
        }
    }

    /// Reads a meta command up to the end of its line.
    fn meta(&mut self, offset: usize) -> Result<(), Mistake> {
        let rest = &self.source[offset + 1..];
        let length = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..length];
        let arguments = (offset + 1 + length, line_end(self.source, offset));
        let command = match name.to_ascii_lowercase().as_str() {
            "gset" | "aset" => return self.store(name, offset, arguments),
            "set" => self.set(offset, arguments)?,
            "sleep" => Command::Sleep(arguments),
            "if" => Command::If(arguments),
            "elif" => Command::Elif(arguments),
            "else" | "endif" => {
                self.wants_no_more(arguments)?;
                if name.eq_ignore_ascii_case("else") { Command::Else(offset) } else { Command::Endif(offset) }
            }
            other => return Err(Mistake::new(offset, refusal(other))),
        };
        self.finish(offset, None);
        self.resume(arguments.1);
        self.commands.push(command);
        Ok(())
    }

    fn resume(&mut self, at: usize) {
        self.units.seek(at);
        self.start = at;
    }

    fn set(&self, offset: usize, arguments: Span) -> Result<Command, Mistake> {
        let Some(name) = word(self.source, arguments) else {
            return Err(Mistake::new(offset, "\\set needs a name and an expression"));
        };
        check_name(&self.source[name.0..name.1], name.0)?;
        Ok(Command::Set { name, expression: (name.1, arguments.1) })
    }

    fn wants_no_more(&self, arguments: Span) -> Result<(), Mistake> {
        match word(self.source, arguments) {
            Some((start, _)) => Err(Mistake::new(start, "the command takes no argument here")),
            None => Ok(()),
        }
    }

    fn store(&mut self, name: &str, offset: usize, arguments: Span) -> Result<(), Mistake> {
        let all = name.eq_ignore_ascii_case("aset");
        let prefix = word(self.source, arguments);
        self.wants_no_more((prefix.map_or(arguments.0, |(_, end)| end), arguments.1))?;
        let prefix = prefix.map_or("", |(start, end)| &self.source[start..end]);
        self.cut(offset);
        if self.statements.is_empty() {
            return Err(Mistake::new(offset, format!("\\{name} must follow an SQL command")));
        }
        let last = self.statements.len() - 1;
        let mut names = Vec::new();
        for (i, &span) in self.statements.iter().enumerate() {
            names.push(if all || i == last { self.stored(span, name, prefix, !all)? } else { Vec::new() });
        }
        self.start = offset;
        self.finish(offset, Some(Store { offset, all, names }));
        self.resume(arguments.1);
        Ok(())
    }

    /// The variables that a statement's columns set.
    fn stored(&self, (start, end): Span, command: &str, prefix: &str, required: bool) -> Result<Vec<String>, Mistake> {
        match columns(&self.source[start..end], self.dialect) {
            None if required => Err(Mistake::new(start, format!("\\{command} needs a statement that returns a row"))),
            None => Ok(Vec::new()),
            Some(Err(column)) => {
                let message = format!("column {column} needs a name for \\{command}: write `AS name`");
                Err(Mistake::new(start, message))
            }
            Some(Ok(names)) => names
                .into_iter()
                .map(|name| {
                    let name = format!("{prefix}{name}");
                    check_name(&name, start).map(|()| name)
                })
                .collect(),
        }
    }
}

/// Where the statement of the text from `from` on begins, if there is one. A planner's hint in front of it is a part of
/// it, and what MySQL runs of a comment is no comment.
fn beginning(text: &str, from: usize, dialect: Dialect) -> Option<usize> {
    let is_run = |comment| dialect == Dialect::Mysql && !executed(comment).trim().is_empty();
    let mut hint = None;
    for piece in Units::new(text, from, dialect) {
        match piece.unit {
            Unit::Space | Unit::LineComment => {}
            Unit::BlockComment if piece.text.starts_with("/*+") => hint = hint.or(Some(piece.offset)),
            Unit::BlockComment if !is_run(piece.text) => {}
            _ => return hint.or(Some(piece.offset)),
        }
    }
    None
}

/// The next word of a meta command's arguments.
pub(super) fn word(source: &str, (start, end): Span) -> Option<Span> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\\';
    let text = &source[start..end];
    let skipped = text.find(|c| !is_space(c))?;
    let length = text[skipped..].find(is_space).unwrap_or(text.len() - skipped);
    Some((start + skipped, start + skipped + length))
}

fn check_name(name: &str, offset: usize) -> Result<(), Mistake> {
    let is_valid = name.bytes().all(is_name) && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_valid { Ok(()) } else { Err(Mistake::new(offset, format!("{name:?} is no name for a variable"))) }
}

/// The end of the line, or of the last one when lines end in a backslash.
fn line_end(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(length) = source[at..].find('\n') {
        let line = source[at..at + length].trim_end_matches('\r');
        if !line.ends_with('\\') {
            return at + length;
        }
        at += length + 1;
    }
    source.len()
}

fn refusal(name: &str) -> String {
    match name {
        "shell" | "setshell" => format!("\\{name} runs a program on the machine that loads; it is refused"),
        "startpipeline" | "syncpipeline" | "endpipeline" => {
            format!("\\{name}: pipelines are not supported, each user waits for every answer")
        }
        "setrandom" => "\\setrandom was removed from pgbench; write \\set with random(…)".to_owned(),
        _ => format!("there is no meta command \\{name}"),
    }
}
