//! What browsers fill into requests: numbers, words and texts that are drawn, and ids that were found in pages.

use std::fmt::Write;

use super::encode::{is_encoded, push_form, push_found, push_path, unescape};
use super::page::{Find, VALUES_MAX};
use super::texts::Texts;
use crate::random::Random;
use crate::weights::{check_weights, cumulate, pick};

/// A bound of a range: a number, or another value.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This number.
    Number(i64),
    /// What this value is; 0 where it is no number.
    Value(u16),
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it is sent.
    Text(String),
    /// The value with this number.
    Value(u16),
}

/// How a value is made when no page has given one.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Not at all: it is empty then.
    Nothing,
    /// A whole number from `low` to `high`.
    Number {
        /// The lowest.
        low: Bound,
        /// The highest.
        high: Bound,
        /// Makes some numbers likelier than others: TPC-W's NURand with this A; 0: all are alike.
        skew: i64,
        /// It is added to this value, which may have two decimals.
        plus: Option<u16>,
        /// Filled up with zeros on the left to so many digits.
        width: u8,
    },
    /// One of these, each with its weight.
    OneOf(Vec<(String, f64)>),
    /// So many random letters, in words.
    Letters(u32, u32),
    /// A text with other values in it.
    Text(Vec<Piece>),
    /// Another value, which is a number, in other digits.
    Spelled {
        /// That value.
        of: u16,
        /// The ten digits.
        digits: Vec<String>,
        /// Filled up with zeros on the left to so many digits.
        width: u8,
    },
}

/// A value that requests are made of.
#[derive(Clone, Debug)]
pub struct Value {
    /// How it is made.
    pub kind: Kind,
    /// How often it is made at all; else it is empty.
    pub chance: f64,
    /// Whether it stays as it is for a session, until a page gives another; else it is new for each interaction.
    pub is_of_session: bool,
    /// Where pages have it.
    pub finds: Vec<Find>,
    /// A page that gives this gives none.
    pub none: Option<String>,
}

/// The values of a site, ready to be drawn.
#[derive(Debug)]
pub(super) struct Values {
    all: Vec<Value>,
    cumulative: Vec<Box<[f64]>>,
}

impl Values {
    /// A value is made of those before it only, so that there is no circle.
    pub(super) fn new(all: Vec<Value>) -> Result<Self, String> {
        let mut cumulative = Vec::new();
        for (number, value) in all.iter().enumerate() {
            let wrong = |text: String| format!("value number {number}: {text}");
            if let Some(later) = value.kind.parts().into_iter().find(|&part| usize::from(part) >= number) {
                return Err(wrong(format!("it is made of number {later}, which does not come before it")));
            }
            cumulative.push(value.kind.check().map_err(wrong)?);
        }
        Ok(Self { all, cumulative })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn draw(&self, number: usize, slots: &mut [Slot], random: &mut Random) {
        let value = &self.all[number];
        let (before, rest) = slots.split_at_mut(number);
        let slot = &mut rest[0];
        slot.text.clear();
        slot.is_found = slot.found.len() > 0;
        if slot.is_found {
            let place = random.below(slot.found.len() as u64) as usize;
            slot.text.push_str(slot.found.get(place).unwrap_or(""));
        } else if value.chance >= 1.0 || random.unit() < value.chance {
            value.kind.write(before, &self.cumulative[number], random, &mut slot.text);
        }
    }
}

impl Kind {
    fn parts(&self) -> Vec<u16> {
        let value = |bound: &Bound| if let Bound::Value(number) = bound { Some(*number) } else { None };
        match self {
            Self::Nothing | Self::OneOf(_) | Self::Letters(..) => Vec::new(),
            Self::Number { low, high, plus, .. } => [value(low), value(high), *plus].into_iter().flatten().collect(),
            Self::Text(pieces) => pieces.iter().filter_map(Piece::value).collect(),
            Self::Spelled { of, .. } => vec![*of],
        }
    }

    fn check(&self) -> Result<Box<[f64]>, String> {
        match self {
            &Self::Number { low: Bound::Number(low), high: Bound::Number(high), .. } if low > high => {
                Err(format!("no number is from {low} to {high}"))
            }
            Self::OneOf(texts) => {
                let weights: Vec<f64> = texts.iter().map(|(_, weight)| *weight).collect();
                check_weights(&weights).map(|()| cumulate(&weights))
            }
            Self::Letters(low, high) if low > high => Err(format!("no text has from {low} to {high} letters")),
            Self::Spelled { digits, .. } if digits.len() != 10 => {
                Err(format!("{} digits in place of 10", digits.len()))
            }
            _ => Ok(Box::default()),
        }
    }

    fn write(&self, before: &[Slot], cumulative: &[f64], random: &mut Random, out: &mut String) {
        match self {
            Self::Nothing => {}
            &Self::Number { low, high, skew, plus, width } => {
                let low = low.get(before);
                let number = between(low, high.get(before).max(low), skew, random);
                match plus {
                    Some(plus) => write_sum(&before[usize::from(plus)].text, number, out),
                    // Writing to a String cannot fail.
                    None => _ = write!(out, "{number:0width$}", width = usize::from(width)),
                }
            }
            Self::OneOf(texts) => out.push_str(&texts[pick(cumulative, random)].0),
            Self::Letters(low, high) => write_letters(random.between(i64::from(*low), i64::from(*high)), random, out),
            Self::Text(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.push_str(text),
                        Piece::Value(part) => out.push_str(&before[usize::from(*part)].text),
                    }
                }
            }
            Self::Spelled { of, digits, width } => {
                let number = &before[usize::from(*of)].text;
                for _ in number.len()..usize::from(*width) {
                    out.push_str(&digits[0]);
                }
                for digit in number.bytes().filter(u8::is_ascii_digit) {
                    out.push_str(&digits[usize::from(digit - b'0')]);
                }
            }
        }
    }
}

impl Piece {
    pub(super) fn value(&self) -> Option<u16> {
        if let Self::Value(number) = self { Some(*number) } else { None }
    }
}

impl Bound {
    fn get(self, before: &[Slot]) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Value(part) => before[usize::from(part)].text.parse().unwrap_or(0),
        }
    }
}

fn between(low: i64, high: i64, skew: i64, random: &mut Random) -> i64 {
    let uniform = random.between(low, high);
    let n = i128::from(high) - i128::from(low) + 1;
    if skew == 0 {
        return uniform;
    }
    let mixed = i128::from(random.between(0, skew.max(0)) | uniform);
    (mixed.rem_euclid(n) + i128::from(low)) as i64
}

/// `text` is a number with two decimals at most; what is none counts as 0.
fn write_sum(text: &str, number: i64, out: &mut String) {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let cents = match decimals.as_bytes() {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', ..] => (tens - b'0') * 10 + (ones - b'0'),
        [tens @ b'0'..=b'9'] => (tens - b'0') * 10,
        _ => 0,
    };
    let sum = whole.parse::<i64>().unwrap_or(0).saturating_add(number);
    // Writing to a String cannot fail.
    let _ = if decimals.is_empty() { write!(out, "{sum}") } else { write!(out, "{sum}.{cents:02}") };
}

fn write_letters(n: i64, random: &mut Random, out: &mut String) {
    let mut rest_of_word = 0;
    for _ in 0..n {
        if rest_of_word == 0 {
            rest_of_word = random.between(3, 10);
            out.push(if out.is_empty() { 'a' } else { ' ' });
        } else {
            out.push(char::from(b'a' + random.below(26) as u8));
            rest_of_word -= 1;
        }
    }
}

/// A value as one browser has it.
#[derive(Debug, Default)]
struct Slot {
    text: String,
    /// The interaction that it was drawn for; 0 for none.
    drawn_for: u64,
    is_found: bool,
    found: Texts,
}

/// What one browser knows.
#[derive(Debug)]
pub(super) struct Memory {
    slots: Box<[Slot]>,
    interaction: u64,
    scratch: String,
}

impl Memory {
    pub(super) fn new(values: &Values) -> Self {
        let slots = (0..values.len()).map(|_| Slot::default()).collect();
        Self { slots, interaction: 1, scratch: String::new() }
    }

    /// A new session: nothing is known.
    pub(super) fn forget(&mut self) {
        for slot in &mut self.slots {
            slot.found.clear();
            slot.drawn_for = 0;
        }
    }

    /// The next interaction draws anew.
    pub(super) fn turn(&mut self) {
        self.interaction += 1;
    }

    /// The value for this interaction.
    pub(super) fn get(&mut self, values: &Values, number: u16, random: &mut Random) -> &str {
        self.make(values, usize::from(number), random);
        &self.slots[usize::from(number)].text
    }

    fn make(&mut self, values: &Values, number: usize, random: &mut Random) {
        let slot = &self.slots[number];
        let value = &values.all[number];
        if slot.drawn_for == self.interaction || (value.is_of_session && slot.drawn_for > 0) {
            return;
        }
        match &value.kind {
            Kind::Text(pieces) => {
                for part in pieces.iter().filter_map(Piece::value) {
                    self.make(values, usize::from(part), random);
                }
            }
            Kind::Spelled { of, .. } => self.make(values, usize::from(*of), random),
            Kind::Number { low, high, plus, .. } => {
                for bound in [low, high] {
                    if let Bound::Value(part) = bound {
                        self.make(values, usize::from(*part), random);
                    }
                }
                if let Some(part) = plus {
                    self.make(values, usize::from(*part), random);
                }
            }
            Kind::Nothing | Kind::OneOf(_) | Kind::Letters(..) => {}
        }
        values.draw(number, &mut self.slots, random);
        self.slots[number].drawn_for = self.interaction;
    }

    /// Appends a part of an address.
    pub(super) fn push_path(&mut self, values: &Values, number: u16, random: &mut Random, out: &mut String) -> bool {
        self.make(values, usize::from(number), random);
        let slot = &self.slots[usize::from(number)];
        if slot.is_found {
            push_found(&slot.text, out);
        } else {
            push_path(&slot.text, out);
        }
        !slot.text.is_empty()
    }

    /// Appends a part of a query or a form; whether there is anything.
    pub(super) fn push_form(&mut self, values: &Values, number: u16, random: &mut Random, out: &mut String) -> bool {
        self.make(values, usize::from(number), random);
        let slot = &self.slots[usize::from(number)];
        let are_words = values.all[usize::from(number)].finds.iter().all(Find::takes_words);
        // A query that stood in a link is encoded as forms are.
        if slot.is_found && are_words && is_encoded(&slot.text) {
            push_found(&slot.text, out);
        } else {
            push_form(&slot.text, out);
        }
        !slot.text.is_empty()
    }

    /// Takes what a page gives for a value; a page that gives nothing leaves what is known.
    pub(super) fn learn(&mut self, values: &Values, number: u16, body: &[u8]) {
        let value = &values.all[usize::from(number)];
        let Self { slots, interaction, scratch } = self;
        let slot = &mut slots[usize::from(number)];
        let mut is_first = true;
        for find in &value.finds {
            find.each(body, |text| {
                if std::mem::take(&mut is_first) {
                    slot.found.clear();
                }
                unescape(text, scratch);
                if value.none.as_ref() != Some(scratch) {
                    slot.found.push(scratch);
                }
                slot.found.len() < VALUES_MAX
            });
        }
        if !is_first && value.is_of_session {
            // It is this now, and nothing else, until another page says so.
            slot.text.clear();
            slot.is_found = true;
            slot.drawn_for = *interaction;
            slot.text.push_str(slot.found.get(slot.found.len().saturating_sub(1)).unwrap_or(""));
        }
    }
}
