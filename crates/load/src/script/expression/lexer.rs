//! Words of an expression.

use super::super::error::Mistake;
use super::super::word::is_name;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Int(i64),
    /// 9223372036854775808, which only a minus before it makes an integer.
    IntMinimum,
    Float(f64),
    /// `:name`, without the colon.
    Variable(&'a str),
    /// A keyword or a function's name.
    Word(&'a str),
    /// An operator or punctuation.
    Sign(&'static str),
    End,
}

/// Longer signs first.
const SIGNS: [&str; 19] =
    ["<<", ">>", "<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|", "#", "~", "("];
const CLOSING: [&str; 2] = [")", ","];

/// Reads one word at a time.
pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { source, at: 0 }
    }

    /// The next word and the offset where it starts.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, usize), Mistake> {
        self.skip_space();
        let start = self.at;
        let rest = &self.source[start..];
        let Some(&first) = rest.as_bytes().first() else {
            return Ok((Token::End, start));
        };
        let token = match first {
            b':' => self.variable(rest)?,
            b'0'..=b'9' | b'.' => self.number(rest)?,
            _ if first.is_ascii_alphabetic() || first == b'_' => {
                Token::Word(self.take(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            }
            _ => self.sign(rest)?,
        };
        Ok((token, start))
    }

    fn skip_space(&mut self) {
        let bytes = self.source.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            // A backslash reaches here only before the end of a line, where it continues the command.
            if !byte.is_ascii_whitespace() && byte != b'\\' {
                return;
            }
            self.at += 1;
        }
    }

    fn take(&mut self, rest: &'a str, belongs: impl Fn(u8) -> bool) -> &'a str {
        let length = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn variable(&mut self, rest: &'a str) -> Result<Token<'a>, Mistake> {
        let colon = self.at;
        self.at += 1;
        match self.take(&rest[1..], is_name) {
            "" => Err(Mistake::new(colon, "a colon that no name follows")),
            name => Ok(Token::Variable(name)),
        }
    }

    fn number(&mut self, rest: &'a str) -> Result<Token<'a>, Mistake> {
        let start = self.at;
        let digits = self.take(rest, |byte| byte.is_ascii_digit());
        let fraction = rest.as_bytes().get(digits.len()) == Some(&b'.');
        if fraction {
            self.at += 1;
            let decimals = self.take(&self.source[self.at..], |byte| byte.is_ascii_digit());
            if digits.is_empty() && decimals.is_empty() {
                return Err(Mistake::new(start, "unexpected '.'"));
            }
        }
        let exponent = self.exponent();
        let text = &self.source[start..self.at];
        if !fraction && !exponent {
            return integer(text).ok_or_else(|| Mistake::new(start, format!("{text} is too large for a bigint")));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Float(value)),
            _ => Err(Mistake::new(start, format!("{text} is too large for a double"))),
        }
    }

    /// Takes an exponent if there is one.
    fn exponent(&mut self) -> bool {
        let bytes = &self.source.as_bytes()[self.at..];
        let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
        let is_exponent =
            matches!(bytes.first(), Some(b'e' | b'E')) && bytes.get(1 + sign).is_some_and(u8::is_ascii_digit);
        if is_exponent {
            self.at += 1 + sign;
            self.take(&self.source[self.at..], |byte| byte.is_ascii_digit());
        }
        is_exponent
    }

    fn sign(&mut self, rest: &'a str) -> Result<Token<'a>, Mistake> {
        let Some(sign) = SIGNS.into_iter().chain(CLOSING).find(|sign| rest.starts_with(sign)) else {
            let found = rest.chars().next().unwrap_or(' ');
            return Err(Mistake::new(self.at, format!("unexpected {found:?}")));
        };
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }
}

fn integer(text: &str) -> Option<Token<'static>> {
    match text.parse::<u64>().ok()? {
        0x8000_0000_0000_0000 => Some(Token::IntMinimum),
        value => i64::try_from(value).ok().map(Token::Int),
    }
}
