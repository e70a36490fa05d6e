//! Scripts as the sources of a run.

use std::sync::Arc;

use super::compiled::Compiled;
use super::error::ScriptError;
use super::expression::State;
use super::names::{Names, Statements};
use super::options::{Mode, Options};
use super::own::{self, Transaction};
use super::pgbench::{BUILTINS, Command, Compiler, scan};
use super::program::Program;
use super::random::Zipf;
use super::user::ScriptSource;
use super::value::Scalar;
use crate::random::Random;
use crate::source::{Source, Sources, SqlSources};
use crate::sql::{Dialect, Sql};
use crate::weights::{check_weights, cumulate};

/// One of the transactions that a run chooses from.
#[derive(Clone, Debug)]
pub enum Script {
    /// A pgbench script.
    Pgbench {
        /// Its name in the results.
        label: String,
        /// How often it is chosen, relative to the others.
        weight: f64,
        /// The file's name, for messages.
        file: String,
        /// Its text.
        text: String,
    },
    /// Statements of the user's own.
    Own(Transaction),
}

/// Weighted transactions as the sources of all users.
#[derive(Clone, Debug)]
pub struct ScriptSources(Arc<Compiled>);

/// Variables that pgbench sets itself.
const AUTOMATIC: [&str; 4] = ["scale", "client_id", "random_seed", "default_seed"];

impl Script {
    /// pgbench's built-in script of that name, or of the only one whose name starts so.
    pub fn builtin(name: &str, weight: f64) -> Result<Self, ScriptError> {
        let mut found = BUILTINS.iter().filter(|(known, _)| !name.is_empty() && known.starts_with(name));
        let (Some((label, text)), None) = (found.next(), found.next()) else {
            let known = BUILTINS.map(|(known, _)| known).join(", ");
            return Err(ScriptError::whole(name, format!("no built-in script has this name; there are {known}")));
        };
        let file = format!("<builtin: {label}>");
        Ok(Self::Pgbench { label: (*label).to_owned(), weight, file, text: (*text).to_owned() })
    }

    fn weight(&self) -> (&str, f64) {
        match self {
            Self::Pgbench { label, weight, .. } => (label, *weight),
            Self::Own(transaction) => (&transaction.label, transaction.weight),
        }
    }
}

impl ScriptSources {
    /// Reads and compiles all scripts; nothing of them can fail later but what depends on values.
    pub fn new(scripts: &[Script], options: &Options) -> Result<Self, ScriptError> {
        let weights: Vec<f64> = scripts.iter().map(|script| script.weight().1).collect();
        check_weights(&weights).map_err(|message| ScriptError::whole("scripts", message))?;
        let mut names = Names::default();
        for name in AUTOMATIC {
            names.add(name);
        }
        for (name, value) in &options.variables {
            let slot = names.add(name) as usize;
            // Arithmetic on a number that is kept as text would read it each time.
            match value.parse::<i64>() {
                Ok(number) if number.to_string() == *value => names.initial[slot].value = Scalar::Int(number),
                _ => names.initial[slot].set_text(value),
            }
        }
        names.preset("scale", Scalar::Int(1));
        let scanned = scan_all(scripts, options.dialect, &mut names)?;
        let mut compiled = Compiled {
            dialect: options.dialect,
            programs: Vec::new(),
            cumulative: cumulate(&weights),
            generators: Vec::new(),
            names,
            statements: Vec::new(),
            n_counters: 0,
            users: options.users.max(1),
        };
        let mut statements = Statements::new(options.dialect);
        for (script, commands) in scripts.iter().zip(&scanned) {
            let program = compile(script, commands, &mut compiled, &mut statements, options.mode)?;
            compiled.programs.push(program);
        }
        compiled.statements = statements.texts;
        Ok(Self(Arc::new(compiled)))
    }
}

impl SqlSources for ScriptSources {
    fn statements(&self) -> Vec<String> {
        self.0.statements.clone()
    }
}

/// The commands of every pgbench script; all variables that they set are known after this.
fn scan_all(scripts: &[Script], dialect: Dialect, names: &mut Names) -> Result<Vec<Vec<Command>>, ScriptError> {
    let mut all = Vec::new();
    for script in scripts {
        let Script::Pgbench { file, text, .. } = script else {
            all.push(Vec::new());
            continue;
        };
        let commands = scan(text, dialect).map_err(|mistake| mistake.locate(file, text))?;
        if commands.is_empty() {
            return Err(ScriptError::whole(file, "there is no command in the script"));
        }
        for command in &commands {
            match command {
                Command::Set { name, .. } => _ = names.add(&text[name.0..name.1]),
                Command::Sql { store: Some(store), .. } => {
                    store.names.iter().flatten().for_each(|name| _ = names.add(name));
                }
                _ => {}
            }
        }
        all.push(commands);
    }
    Ok(all)
}

fn compile(
    script: &Script,
    commands: &[Command],
    compiled: &mut Compiled,
    statements: &mut Statements,
    mode: Mode,
) -> Result<Program, ScriptError> {
    match script {
        Script::Pgbench { label, file, text, .. } => {
            let mut compiler = Compiler { source: text, names: &compiled.names, statements, mode };
            let steps = compiler.compile(commands).map_err(|mistake| mistake.locate(file, text))?;
            Ok(Program { label: label.clone(), steps, own: 0..0 })
        }
        Script::Own(transaction) => {
            let Compiled { names, generators, n_counters, .. } = compiled;
            let mut tables = own::Tables { names, statements, generators, n_counters, mode };
            own::compile(transaction, &mut tables)
        }
    }
}

impl Sources<Sql> for ScriptSources {
    fn labels(&self) -> Vec<String> {
        self.0.programs.iter().map(|program| program.label.clone()).collect()
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Sql>> {
        let compiled = &self.0;
        let mut names = compiled.names.initial.clone();
        let default_seed = Random::in_state(!seed).bits() as i64;
        let automatic = [("client_id", user.into()), ("random_seed", seed as i64), ("default_seed", default_seed)];
        for (name, value) in automatic {
            let slot = compiled.names.find(name).map(|slot| &mut names[slot as usize]);
            if let Some(slot) = slot.filter(|slot| slot.value == Scalar::Unset) {
                slot.value = Scalar::Int(value);
            }
        }
        let state = State { slots: names, rng: Random::of_choices(seed, user), zipf: Zipf::new(1, 1.0) };
        let user = own::User { number: user, users: compiled.users, counters: vec![0; compiled.n_counters as usize] };
        Box::new(ScriptSource::new(Arc::clone(compiled), state, user))
    }
}
