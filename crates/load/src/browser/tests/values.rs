use super::*;

/// What the last value comes to, so often.
fn drawn(values: Vec<Value>, n: usize) -> Vec<String> {
    let last = values.len() as u16 - 1;
    let page = state("a", vec![ask(vec![Piece::Text("/".to_owned()), Piece::Value(last)])]);
    let mut source = browser(ring(vec![page], values));
    (0..n).map(|_| interact(&mut *source, |_| ok("")).0[0].split_once('/').expect("a path").1.to_owned()).collect()
}

#[test]
fn numbers_lie_in_their_range_and_are_filled_up() {
    let Kind::Number { low, high, .. } = number(7, 12) else { unreachable!() };
    let all = drawn(vec![value(Kind::Number { low, high, skew: 0, plus: None, width: 3 })], 500);
    let distinct: std::collections::BTreeSet<_> = all.iter().map(String::as_str).collect();
    assert_eq!(distinct.into_iter().collect::<Vec<_>>(), ["007", "008", "009", "010", "011", "012"]);
}

#[test]
fn skewed_numbers_are_those_of_the_specification() {
    // ((rand(0..A) | rand(x..y)) mod (y - x + 1)) + x: exact shares by going through all pairs.
    let (skew, low, high) = (15, 1, 40);
    let mut shares = vec![0.0; 41];
    for a in 0..=skew {
        for b in low..=high {
            shares[(((a | b) % (high - low + 1)) + low) as usize] += 1.0 / f64::from((skew + 1) * (high - low + 1));
        }
    }
    let kind = Kind::Number { low: Bound::Number(1), high: Bound::Number(40), skew: 15, plus: None, width: 0 };
    let n = 40_000;
    let mut counts = vec![0.0; 41];
    for text in drawn(vec![value(kind)], n) {
        counts[text.parse::<usize>().expect("a number")] += 1.0 / n as f64;
    }
    for (number, (share, expected)) in counts.into_iter().zip(shares).enumerate() {
        assert!((share - expected).abs() < 0.006, "{number}: {share} {expected}");
    }
}

#[test]
fn values_are_made_of_others() {
    let digits = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"].map(str::to_owned).to_vec();
    let spelled = |of, width| value(Kind::Spelled { of, digits: digits.clone(), width });
    assert_eq!(drawn(vec![value(number(407, 407)), spelled(0, 0)], 1), ["REBAUL"]);
    assert_eq!(drawn(vec![value(number(7, 7)), spelled(0, 7)], 1), ["BABABABABABAUL"]);
    let text = vec![Piece::Text("user".to_owned()), Piece::Value(0)];
    assert_eq!(drawn(vec![value(number(3, 3)), value(Kind::Text(text))], 1), ["user3"]);
    let plus = |base: &str, add| {
        let low = Bound::Number(add);
        let sum = Kind::Number { low, high: low, skew: 0, plus: Some(0), width: 0 };
        drawn(vec![value(one_of(&[(base, 1.0)])), value(sum)], 1).remove(0)
    };
    assert_eq!([plus("12.34", 5), plus("12.5", 5), plus("12", 5), plus("x", 5)], ["17.34", "17.50", "17", "5"]);
    // A bound that is a value: at most what the page says, and the lowest where it says nothing.
    let up_to = Kind::Number { low: Bound::Number(1), high: Bound::Value(0), skew: 0, plus: None, width: 0 };
    assert!(
        drawn(vec![value(number(3, 3)), value(up_to.clone())], 100)
            .iter()
            .all(|text| ["1", "2", "3"].contains(&&text[..]))
    );
    assert_eq!(drawn(vec![value(one_of(&[("none", 1.0)])), value(up_to)], 1), ["1"]);
}

#[test]
fn words_come_by_their_weights_and_texts_by_their_lengths() {
    let all = drawn(vec![value(one_of(&[("a b", 1.0), ("\u{e9}/", 3.0)]))], 4_000);
    let n = all.iter().filter(|text| *text == "a%20b").count();
    assert!(n.abs_diff(1_000) < 120 && all.iter().all(|text| text == "a%20b" || text == "%C3%A9/"), "{n}");
    let lengths: std::collections::BTreeSet<_> =
        drawn(vec![value(Kind::Letters(3, 6))], 400).iter().map(|text| text.replace("%20", " ").len()).collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
}
