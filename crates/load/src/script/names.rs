//! Variables of all scripts, and the statements that they prepare.

use std::collections::HashMap;

use super::value::{Scalar, Slot};
use crate::sql::Dialect;

/// The variables that pgbench scripts share, and where they stand.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: HashMap<String, u32>,
    /// What the slots of every user start with.
    pub(super) initial: Vec<Slot>,
}

impl Names {
    /// The slot of a variable that something sets.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The variable's slot, new if need be.
    pub(super) fn add(&mut self, name: &str) -> u32 {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let slot = self.anonymous();
        self.by_name.insert(name.to_owned(), slot);
        slot
    }

    /// A slot that no script can name.
    pub(super) fn anonymous(&mut self) -> u32 {
        self.initial.push(Slot::default());
        self.initial.len() as u32 - 1
    }

    /// Gives a variable its value at the start, unless it has one.
    pub(super) fn preset(&mut self, name: &str, value: Scalar) {
        let slot = self.add(name) as usize;
        if self.initial[slot].value == Scalar::Unset {
            self.initial[slot].value = value;
        }
    }
}

/// The texts that the driver prepares, each once.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) dialect: Dialect,
    pub(super) texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Statements {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, texts: Vec::new(), numbers: HashMap::new() }
    }

    /// The text's number.
    pub(super) fn add(&mut self, text: String) -> u32 {
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }
}
