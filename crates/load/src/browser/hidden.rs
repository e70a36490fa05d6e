//! The hidden fields of a page, by the forms in which they stand: a browser sends those of one form.

use super::texts::Texts;
use crate::random::Random;

/// Fields of further forms count as those that stand in none.
const FORMS_MAX: usize = 128;
const PATH_BYTES_MAX: usize = 2048;

/// Frameworks keep the state of a whole page in one field.
const FIELDS_BYTES_MAX: usize = 128 * 1024;

/// See the module. Forms are counted from 1, and 0 stands for none.
#[derive(Clone, Debug, Default)]
pub(super) struct Hidden {
    /// Where each form leads; empty for another site.
    paths: Texts,
    /// Whether each form is posted.
    are_posted: Vec<bool>,
    /// Names and values as they are sent, and the form of each.
    fields: Texts,
    forms: Vec<u16>,
    /// The form that is being read.
    form: u16,
    field: String,
}

impl Hidden {
    pub(super) fn clear(&mut self) {
        self.paths.clear();
        self.are_posted.clear();
        self.fields.clear();
        self.forms.clear();
        self.form = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// A form begins that leads to `target`.
    pub(super) fn begin(&mut self, target: &str, is_posted: bool) {
        let path = path_of(target);
        self.form = 0;
        if self.paths.len() < FORMS_MAX && path.len() <= PATH_BYTES_MAX {
            self.paths.push(path);
            self.are_posted.push(is_posted);
            self.form = self.paths.len() as u16;
        }
    }

    /// The form ends.
    pub(super) fn end(&mut self) {
        self.form = 0;
    }

    /// Adds a field, as `write` appends it; one that is too long for the others is left out.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut String)) {
        self.field.clear();
        write(&mut self.field);
        if self.fields.n_bytes() + self.field.len() <= FIELDS_BYTES_MAX {
            self.fields.push(&self.field);
            self.forms.push(self.form);
        }
    }

    /// A form with fields that leads to `target`, in the same way if there is one, and one of them if there are more; `None` if
    /// there is none.
    pub(super) fn choose(&self, target: &str, is_posted: bool, random: &mut Random) -> Option<u16> {
        let path = path_of(target);
        let leads_there = |place: usize| self.paths.get(place) == Some(path);
        let same = self.one_of(random, |place| self.are_posted[place] == is_posted && leads_there(place));
        same.or_else(|| self.one_of(random, leads_there))
    }

    /// One of the forms with fields whose place among all is a right one.
    fn one_of(&self, random: &mut Random, is_right: impl Fn(usize) -> bool) -> Option<u16> {
        let (mut chosen, mut n_found, mut before) = (None, 0, 0);
        for &form in &self.forms {
            if form != before && usize::from(form).checked_sub(1).is_some_and(&is_right) {
                n_found += 1;
                if n_found == 1 || random.below(n_found) == 0 {
                    chosen = Some(form);
                }
            }
            before = form;
        }
        chosen
    }

    /// Appends the fields of a form, or all, with `joint` in front and "&" between them.
    pub(super) fn write(&self, form: Option<u16>, joint: &str, out: &mut String) {
        let mut joint = joint;
        for (place, own) in self.forms.iter().enumerate() {
            if form.is_none_or(|form| form == *own) {
                out.push_str(joint);
                out.push_str(self.fields.get(place).unwrap_or(""));
                joint = "&";
            }
        }
    }
}

/// Without a query, and without the session that servers of Java write behind a path.
fn path_of(target: &str) -> &str {
    target.split(['?', ';']).next().unwrap_or("")
}
