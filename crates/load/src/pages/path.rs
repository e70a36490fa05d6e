//! Paths with numbers that are drawn anew each time.

use std::fmt::Write;

use crate::random::Random;

/// A path and query in which `{1-1000}` stands for a number of that range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Number(i64, i64),
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err(format!("path={text:?} does not begin with /"));
        }
        if let Some(wrong) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("path={text:?} holds {wrong:?}: write %XX for other characters"));
        }
        if text.contains('#') {
            return Err(format!("path={text:?} holds '#': what follows it stays in the browser, leave it out"));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (range, behind) = after.split_once('}').ok_or_else(|| format!("path={text:?} has {{ without }}"))?;
            pieces.push(Piece::Text(before.to_owned()));
            let bounds = range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
            let (low, high) = bounds
                .filter(|(low, high): &(i64, i64)| low <= high)
                .ok_or_else(|| format!("path={text:?} has {{{range}}}, which is no range: write {{1-1000}}"))?;
            pieces.push(Piece::Number(low, high));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// Writes it over what `target` held.
    pub(super) fn write(&self, random: &mut Random, target: &mut String) {
        target.clear();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => target.push_str(text),
                // Writing to a String cannot fail.
                Piece::Number(low, high) => _ = write!(target, "{}", random.between(*low, *high)),
            }
        }
    }
}
