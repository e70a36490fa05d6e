//! From text to [`Expression`], with pgbench's precedence:
//! `or`, `and`, `not`, `is`/`isnull`/`notnull`, comparisons (which do not chain), bitwise operators and shifts with a leading
//! `~`, `+ -`, `* / %`, signs.

use super::super::error::Mistake;
use super::super::value::Scalar;
use super::functions::{Arity, Function};
use super::lexer::{Lexer, Token};
use super::tree::Expression;

/// Deeper than any script of a person's, and shallow enough for a thread's stack.
const DEPTH_MAX: u32 = 100;

/// A chain of operators is a tree as deep as it is long. Longer than any script of a person's, too.
const WORDS_MAX: u32 = 2_000;

/// Finds a variable's slot; `None` when nothing ever sets it.
type Resolve<'a> = dyn Fn(&str) -> Option<u32> + 'a;

/// Reads one whole expression; offsets of mistakes count from the start of `source`.
pub(in super::super) fn parse(source: &str, resolve: &Resolve<'_>) -> Result<Expression, Mistake> {
    let mut lexer = Lexer::new(source);
    let (token, at) = lexer.next()?;
    let mut parser = Parser { lexer, token, at, resolve, depth: 0, n_words: 1 };
    let expression = parser.any_of()?;
    match parser.token {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    at: usize,
    resolve: &'a Resolve<'a>,
    depth: u32,
    n_words: u32,
}

type Parsed = Result<Expression, Mistake>;

fn call<const N: usize>(function: Function, arguments: [Expression; N]) -> Expression {
    Expression::Call(function, Box::new(arguments))
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<(), Mistake> {
        (self.token, self.at) = self.lexer.next()?;
        self.n_words += 1;
        if self.n_words > WORDS_MAX {
            return Err(Mistake::new(self.at, format!("an expression of more than {WORDS_MAX} words")));
        }
        Ok(())
    }

    fn unexpected(&self) -> Mistake {
        let message = match self.token {
            Token::End => "the expression ends too early".to_owned(),
            Token::Int(value) => format!("unexpected {value}"),
            Token::IntMinimum => "9223372036854775808 is too large for a bigint".to_owned(),
            Token::Float(value) => format!("unexpected {value}"),
            Token::Variable(name) => format!("unexpected :{name}"),
            Token::Word(word) => format!("unexpected {word:?}"),
            Token::Sign(sign) => format!("unexpected {sign:?}"),
        };
        Mistake::new(self.at, message)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    /// Takes the word if it is the next one.
    fn takes_word(&mut self, word: &str) -> Result<bool, Mistake> {
        let is_next = self.is_word(word);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn wants_word(&mut self, word: &str) -> Result<(), Mistake> {
        if self.takes_word(word)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn takes_sign(&mut self, sign: &'static str) -> Result<bool, Mistake> {
        let is_next = self.token == Token::Sign(sign);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn any_of(&mut self) -> Parsed {
        let mut left = self.all_of()?;
        while self.takes_word("or")? {
            left = Expression::Or(Box::new([left, self.all_of()?]));
        }
        Ok(left)
    }

    fn all_of(&mut self) -> Parsed {
        let mut left = self.negation()?;
        while self.takes_word("and")? {
            left = Expression::And(Box::new([left, self.negation()?]));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed {
        if !self.takes_word("not")? {
            return self.test();
        }
        self.deeper(|parser| Ok(call(Function::Not, [parser.negation()?])))
    }

    /// `is …`, `isnull`, `notnull` after what they test.
    fn test(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        loop {
            let (function, constant) = if self.takes_word("isnull")? {
                (Function::Is, Scalar::Null)
            } else if self.takes_word("notnull")? {
                (Function::IsNot, Scalar::Null)
            } else if self.takes_word("is")? {
                let function = if self.takes_word("not")? { Function::IsNot } else { Function::Is };
                (function, self.constant_word()?.ok_or_else(|| self.unexpected())?)
            } else {
                return Ok(left);
            };
            left = call(function, [left, Expression::Constant(constant)]);
        }
    }

    fn constant_word(&mut self) -> Result<Option<Scalar>, Mistake> {
        for (word, value) in [("null", Scalar::Null), ("true", Scalar::Bool(true)), ("false", Scalar::Bool(false))] {
            if self.takes_word(word)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.bitwise()?;
        let (function, swapped) = match self.token {
            Token::Sign("=") => (Function::Equal, false),
            Token::Sign("<>" | "!=") => (Function::NotEqual, false),
            Token::Sign("<") => (Function::Less, false),
            Token::Sign("<=") => (Function::LessOrEqual, false),
            Token::Sign(">") => (Function::Less, true),
            Token::Sign(">=") => (Function::LessOrEqual, true),
            _ => return Ok(left),
        };
        self.advance()?;
        let right = self.bitwise()?;
        Ok(call(function, if swapped { [right, left] } else { [left, right] }))
    }

    fn bitwise(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let function = match self.token {
                Token::Sign("&") => Function::BitAnd,
                Token::Sign("|") => Function::BitOr,
                Token::Sign("#") => Function::BitXor,
                Token::Sign("<<") => Function::ShiftLeft,
                Token::Sign(">>") => Function::ShiftRight,
                _ => return Ok(left),
            };
            self.advance()?;
            left = call(function, [left, self.sum()?]);
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let function = match self.token {
                Token::Sign("+") => Function::Add,
                Token::Sign("-") => Function::Subtract,
                _ => return Ok(left),
            };
            self.advance()?;
            left = call(function, [left, self.product()?]);
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        loop {
            let function = match self.token {
                Token::Sign("*") => Function::Multiply,
                Token::Sign("/") => Function::Divide,
                Token::Sign("%") => Function::Modulo,
                _ => return Ok(left),
            };
            self.advance()?;
            left = call(function, [left, self.signed()?]);
        }
    }

    fn signed(&mut self) -> Parsed {
        if self.takes_sign("+")? {
            return self.deeper(Self::signed);
        }
        if !self.takes_sign("-")? {
            return self.atom();
        }
        if self.token == Token::IntMinimum {
            self.advance()?;
            return Ok(Expression::Constant(Scalar::Int(i64::MIN)));
        }
        let zero = Expression::Constant(Scalar::Int(0));
        self.deeper(|parser| Ok(call(Function::Subtract, [zero, parser.signed()?])))
    }

    fn atom(&mut self) -> Parsed {
        let (token, at) = (self.token, self.at);
        let constant = |value| Ok(Expression::Constant(value));
        match token {
            Token::Int(value) => self.advance().and_then(|()| constant(Scalar::Int(value))),
            Token::Float(value) => self.advance().and_then(|()| constant(Scalar::Float(value))),
            Token::Variable(name) => {
                self.advance()?;
                self.variable(name, at)
            }
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.deeper(Self::any_of)?;
                if self.takes_sign(")")? { Ok(inner) } else { Err(self.unexpected()) }
            }
            Token::Sign("~") => {
                self.advance()?;
                let ones = Expression::Constant(Scalar::Int(-1));
                self.deeper(|parser| Ok(call(Function::BitXor, [ones, parser.sum()?])))
            }
            Token::Word(word) => self.word(word, at),
            _ => Err(self.unexpected()),
        }
    }

    fn variable(&self, name: &str, at: usize) -> Parsed {
        let unset = || Mistake::new(at, format!("nothing sets the variable :{name}"));
        (self.resolve)(name).map(Expression::Variable).ok_or_else(unset)
    }

    fn word(&mut self, word: &'a str, at: usize) -> Parsed {
        if let Some(value) = self.constant_word()? {
            return Ok(Expression::Constant(value));
        }
        if self.is_word("not") {
            return self.negation();
        }
        if self.takes_word("case")? {
            return self.deeper(Self::case);
        }
        const RESERVED: [&str; 10] = ["and", "or", "is", "isnull", "notnull", "when", "then", "else", "end", "in"];
        if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) {
            return Err(self.unexpected());
        }
        let unknown = || Mistake::new(at, format!("there is no function {word:?}"));
        let (function, arity) = Function::named(word).ok_or_else(unknown)?;
        self.advance()?;
        let mut arguments = self.deeper(Self::arguments)?;
        if let Some(complaint) = arity.complaint(arguments.len()) {
            return Err(Mistake::new(at, format!("{word}: {complaint}")));
        }
        if matches!(arity, Arity::WithSeed(most) if arguments.len() < most) {
            arguments.push(self.variable("default_seed", at)?);
        }
        Ok(Expression::Call(function, arguments.into()))
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, Mistake> {
        let mut arguments = Vec::new();
        if !self.takes_sign("(")? {
            return Err(self.unexpected());
        }
        if self.takes_sign(")")? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.any_of()?);
            if self.takes_sign(")")? {
                return Ok(arguments);
            }
            if !self.takes_sign(",")? {
                return Err(self.unexpected());
            }
        }
    }

    fn case(&mut self) -> Parsed {
        let mut arms = Vec::new();
        while self.takes_word("when")? {
            let condition = self.any_of()?;
            self.wants_word("then")?;
            arms.push((condition, self.any_of()?));
        }
        if arms.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.takes_word("else")? { self.any_of()? } else { Expression::Constant(Scalar::Null) };
        self.wants_word("end")?;
        Ok(Expression::Case(arms.into(), Box::new(otherwise)))
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Mistake>) -> Result<T, Mistake> {
        if self.depth == DEPTH_MAX {
            return Err(Mistake::new(self.at, format!("nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }
}
