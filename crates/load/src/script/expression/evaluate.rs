//! Computing an expression, with pgbench's types, overflows and failures.

use super::super::random::{Zipf, exponential, gaussian};
use super::super::scatter::{fnv1a, murmur2, permute};
use super::super::value::{Scalar, Slot};
use super::functions::Function;
use super::tree::Expression;
use crate::random::Random;

/// What expressions read and change: the variables and the random stream of one user.
#[derive(Debug)]
pub(in super::super) struct State {
    pub(in super::super) slots: Vec<Slot>,
    pub(in super::super) rng: Random,
    /// The Zipfian law last used: its set-up costs as much as several draws.
    pub(in super::super) zipf: Zipf,
}

type Evaluated = Result<Scalar, String>;

/// No function takes more, but for `greatest` and `least`, which are folded.
const ARGUMENTS_MAX: usize = 3;

impl State {
    /// A draw from 1..=n by the Zipfian law with this exponent.
    pub(in super::super) fn zipfian(&mut self, n: u64, s: f64) -> u64 {
        if !self.zipf.is(n, s) {
            self.zipf = Zipf::new(n, s);
        }
        self.zipf.draw(&mut self.rng)
    }
}

impl Expression {
    /// The expression's value; an error fails the transaction.
    pub(in super::super) fn evaluate(&self, state: &mut State) -> Evaluated {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Variable(slot) => match state.slots[*slot as usize].operand()? {
                Scalar::Unset => Err("a variable is used before it is set".to_owned()),
                value => Ok(value),
            },
            Self::Call(function @ (Function::Greatest | Function::Least), arguments) => {
                extreme(*function == Function::Greatest, arguments, state)
            }
            Self::Call(function, arguments) => {
                let mut values = [Scalar::Null; ARGUMENTS_MAX];
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = argument.evaluate(state)?;
                }
                call(*function, &values[..arguments.len()], state)
            }
            Self::And(sides) => lazily(sides, false, state),
            Self::Or(sides) => lazily(sides, true, state),
            Self::Case(arms, otherwise) => {
                for (condition, value) in arms {
                    if condition.evaluate(state)?.is_true() {
                        return value.evaluate(state);
                    }
                }
                otherwise.evaluate(state)
            }
        }
    }
}

/// AND (`decisive` is false) and OR (`decisive` is true): a NULL on the left gives NULL without a look at the right.
fn lazily([left, right]: &[Expression; 2], decisive: bool, state: &mut State) -> Evaluated {
    let left = left.evaluate(state)?;
    if left == Scalar::Null || left.to_bool()? == decisive {
        return Ok(left);
    }
    let right = right.evaluate(state)?;
    if right != Scalar::Null {
        right.to_bool()?;
    }
    Ok(right)
}

/// The greatest or least of all; a double if any is one.
fn extreme(is_greatest: bool, arguments: &[Expression], state: &mut State) -> Evaluated {
    let mut best: Option<Scalar> = None;
    let mut has_null = false;
    for argument in arguments {
        let value = argument.evaluate(state)?;
        if value == Scalar::Null {
            has_null = true;
        } else {
            best = Some(match best {
                Some(best) => better(is_greatest, best, value)?,
                None => value,
            });
        }
    }
    if has_null {
        return Ok(Scalar::Null);
    }
    best.map_or(Ok(Scalar::Null), |best| match best {
        Scalar::Float(_) => Ok(best),
        _ => best.to_int().map(Scalar::Int),
    })
}

fn better(is_greatest: bool, left: Scalar, right: Scalar) -> Evaluated {
    if let (Scalar::Int(left), Scalar::Int(right)) = (left, right) {
        return Ok(Scalar::Int(if is_greatest { left.max(right) } else { left.min(right) }));
    }
    let (left, right) = (left.to_float()?, right.to_float()?);
    Ok(Scalar::Float(if is_greatest { left.max(right) } else { left.min(right) }))
}

fn call(function: Function, values: &[Scalar], state: &mut State) -> Evaluated {
    match (function, values) {
        (Function::Is, [value, constant]) => return Ok(Scalar::Bool(value == constant)),
        (Function::IsNot, [value, constant]) => return Ok(Scalar::Bool(value != constant)),
        (Function::Debug, [value]) => return Ok(*value),
        (Function::Pi, _) => return Ok(Scalar::Float(std::f64::consts::PI)),
        _ if values.contains(&Scalar::Null) => return Ok(Scalar::Null),
        _ => {}
    }
    match *values {
        [value] => of_one(function, value),
        [left, right] => match function {
            Function::Random => random(function, [left, right, Scalar::Null], state),
            Function::HashFnv1a => Ok(Scalar::Int(fnv1a(left.to_int()?, right.to_int()?))),
            Function::HashMurmur2 => Ok(Scalar::Int(murmur2(left.to_int()?, right.to_int()?))),
            Function::Power => Ok(Scalar::Float(left.to_float()?.powf(right.to_float()?))),
            _ => operate(function, left, right),
        },
        [value, size, seed] if function == Function::Permute => match size.to_int()? {
            ..1 => Err("permute: the size must be greater than zero".to_owned()),
            size => Ok(Scalar::Int(permute(value.to_int()?, size, seed.to_int()?))),
        },
        [low, high, parameter] => random(function, [low, high, parameter], state),
        _ => unreachable!("the parser has counted the arguments"),
    }
}

fn of_one(function: Function, value: Scalar) -> Evaluated {
    match function {
        Function::Not => value.to_bool().map(|value| Scalar::Bool(!value)),
        Function::Int => value.to_int().map(Scalar::Int),
        Function::Double => value.to_float().map(Scalar::Float),
        Function::Exp => value.to_float().map(|value| Scalar::Float(value.exp())),
        Function::Ln => value.to_float().map(|value| Scalar::Float(value.ln())),
        Function::Sqrt => value.to_float().map(|value| Scalar::Float(value.sqrt())),
        // The absolute value of the least bigint is itself, as in pgbench.
        Function::Abs => match value {
            Scalar::Int(value) => Ok(Scalar::Int(value.wrapping_abs())),
            _ => value.to_float().map(|value| Scalar::Float(value.abs())),
        },
        _ => unreachable!("the parser has counted the arguments"),
    }
}

fn operate(function: Function, left: Scalar, right: Scalar) -> Evaluated {
    let is_float = matches!(left, Scalar::Float(_)) || matches!(right, Scalar::Float(_));
    if is_float && let Some(result) = on_floats(function, left, right) {
        return result;
    }
    on_ints(function, left.to_int()?, right.to_int()?)
}

/// `None`: the operator knows only integers.
fn on_floats(function: Function, left: Scalar, right: Scalar) -> Option<Evaluated> {
    let operation: fn(f64, f64) -> Scalar = match function {
        Function::Add => |a, b| Scalar::Float(a + b),
        Function::Subtract => |a, b| Scalar::Float(a - b),
        Function::Multiply => |a, b| Scalar::Float(a * b),
        Function::Divide => |a, b| Scalar::Float(a / b),
        Function::Equal => |a, b| Scalar::Bool(a == b),
        Function::NotEqual => |a, b| Scalar::Bool(a != b),
        Function::Less => |a, b| Scalar::Bool(a < b),
        Function::LessOrEqual => |a, b| Scalar::Bool(a <= b),
        _ => return None,
    };
    let both = left.to_float().and_then(|left| Ok((left, right.to_float()?)));
    Some(both.map(|(left, right)| operation(left, right)))
}

fn on_ints(function: Function, a: i64, b: i64) -> Evaluated {
    let checked = |result: Option<i64>, name: &str| {
        result.map(Scalar::Int).ok_or_else(|| format!("{a} {name} {b} is out of the range of bigint"))
    };
    match function {
        Function::Add => checked(a.checked_add(b), "+"),
        Function::Subtract => checked(a.checked_sub(b), "-"),
        Function::Multiply => checked(a.checked_mul(b), "*"),
        Function::Divide | Function::Modulo if b == 0 => Err("division by zero".to_owned()),
        Function::Divide => checked(a.checked_div(b), "/"),
        Function::Modulo => Ok(Scalar::Int(a.wrapping_rem(b))),
        Function::BitAnd => Ok(Scalar::Int(a & b)),
        Function::BitOr => Ok(Scalar::Int(a | b)),
        Function::BitXor => Ok(Scalar::Int(a ^ b)),
        // Shifts count modulo 64.
        Function::ShiftLeft => Ok(Scalar::Int(a.wrapping_shl(b as u32))),
        Function::ShiftRight => Ok(Scalar::Int(a.wrapping_shr(b as u32))),
        Function::Equal => Ok(Scalar::Bool(a == b)),
        Function::NotEqual => Ok(Scalar::Bool(a != b)),
        Function::Less => Ok(Scalar::Bool(a < b)),
        Function::LessOrEqual => Ok(Scalar::Bool(a <= b)),
        _ => unreachable!("the parser has counted the arguments"),
    }
}

fn random(function: Function, [low, high, parameter]: [Scalar; 3], state: &mut State) -> Evaluated {
    let (low, high) = (low.to_int()?, high.to_int()?);
    if low > high {
        return Err(format!("random numbers from an empty range, low={low} high={high}"));
    }
    let last = high.checked_sub(low).filter(|&last| last < i64::MAX);
    let last = last.ok_or_else(|| format!("the range of random numbers is too large, low={low} high={high}"))?;
    if function == Function::Random {
        return Ok(Scalar::Int(state.rng.between(low, high)));
    }
    let parameter = parameter.to_float()?;
    check_parameter(function, parameter)?;
    Ok(Scalar::Int(match function {
        Function::RandomGaussian => gaussian(&mut state.rng, low, high, parameter),
        Function::RandomExponential => exponential(&mut state.rng, low, high, parameter),
        _ => low + (state.zipfian(last as u64 + 1, parameter) - 1) as i64,
    }))
}

fn check_parameter(function: Function, parameter: f64) -> Result<(), String> {
    let (name, is_allowed, wanted) = match function {
        Function::RandomGaussian => ("random_gaussian", parameter >= 2.0, "at least 2.0"),
        Function::RandomExponential => ("random_exponential", parameter > 0.0, "greater than zero"),
        _ => ("random_zipfian", (1.001..=1000.0).contains(&parameter), "from 1.001 to 1000"),
    };
    if is_allowed { Ok(()) } else { Err(format!("{name}: the parameter must be {wanted}, parameter={parameter}")) }
}
