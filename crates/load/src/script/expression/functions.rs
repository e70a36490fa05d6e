//! Names and numbers of arguments of the functions and operators.

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    Is,
    IsNot,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// How many arguments a function takes; of those with a seed, the last may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arity {
    Exactly(usize),
    WithSeed(usize),
    AtLeastOne,
}

/// All functions that a script may call.
const FUNCTIONS: [(&str, Function, Arity); 21] = [
    ("abs", Function::Abs, Arity::Exactly(1)),
    ("debug", Function::Debug, Arity::Exactly(1)),
    ("double", Function::Double, Arity::Exactly(1)),
    ("exp", Function::Exp, Arity::Exactly(1)),
    ("greatest", Function::Greatest, Arity::AtLeastOne),
    ("hash", Function::HashMurmur2, Arity::WithSeed(2)),
    ("hash_fnv1a", Function::HashFnv1a, Arity::WithSeed(2)),
    ("hash_murmur2", Function::HashMurmur2, Arity::WithSeed(2)),
    ("int", Function::Int, Arity::Exactly(1)),
    ("least", Function::Least, Arity::AtLeastOne),
    ("ln", Function::Ln, Arity::Exactly(1)),
    ("mod", Function::Modulo, Arity::Exactly(2)),
    ("permute", Function::Permute, Arity::WithSeed(3)),
    ("pi", Function::Pi, Arity::Exactly(0)),
    ("pow", Function::Power, Arity::Exactly(2)),
    ("power", Function::Power, Arity::Exactly(2)),
    ("random", Function::Random, Arity::Exactly(2)),
    ("random_exponential", Function::RandomExponential, Arity::Exactly(3)),
    ("random_gaussian", Function::RandomGaussian, Arity::Exactly(3)),
    ("random_zipfian", Function::RandomZipfian, Arity::Exactly(3)),
    ("sqrt", Function::Sqrt, Arity::Exactly(1)),
];

impl Function {
    /// The function of that name in any case, and its arity.
    pub(super) fn named(name: &str) -> Option<(Self, Arity)> {
        let found = FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        found.map(|&(_, function, arity)| (function, arity))
    }
}

impl Arity {
    /// What is wrong with that number of arguments.
    pub(super) fn complaint(self, n: usize) -> Option<String> {
        let wanted = match self {
            Self::Exactly(wanted) if n == wanted => return None,
            Self::WithSeed(most) if n == most || n + 1 == most => return None,
            Self::AtLeastOne if n > 0 => return None,
            Self::Exactly(wanted) => wanted.to_string(),
            Self::WithSeed(most) => format!("{} or {most}", most - 1),
            Self::AtLeastOne => "at least 1".to_owned(),
        };
        Some(format!("{n} arguments where {wanted} are wanted"))
    }
}
