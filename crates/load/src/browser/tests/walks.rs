use super::*;

fn plain(chain: Chain, session: Session) -> Site {
    let states = (0..chain.n_states()).map(|n| state(&n.to_string(), vec![ask(text("/"))])).collect();
    Site { chain, session, ..ring(states, Vec::new()) }
}

fn shares(site: &Site, n: u64) -> Vec<f64> {
    walk(site, n, 1).0.iter().map(|&count| count as f64 / n as f64).collect()
}

#[test]
fn shares_are_those_of_the_stationary_chain() {
    // 0 -> 1 or 2 alike, 1 -> 0, 2 -> 2 half the time: 2/5, 1/5, 2/5.
    let site = plain(
        chain(vec![
            vec![(Move::To(1), 3.0), (Move::To(2), 3.0)],
            vec![(Move::To(0), 0.1)],
            vec![(Move::To(0), 1.0), (Move::To(2), 1.0)],
        ]),
        SESSION,
    );
    for (share, expected) in shares(&site, 200_000).into_iter().zip([0.4, 0.2, 0.4]) {
        assert!((share - expected).abs() < 0.006, "{share} {expected}");
    }
}

#[test]
fn back_leads_to_the_page_before() {
    // 0 -> 1 -> 2 -> back to 1 -> 2 -> ...; from 1 half the time back to 0.
    let site = plain(
        chain(vec![vec![(Move::To(1), 1.0)], vec![(Move::To(2), 0.5), (Move::Back, 0.5)], vec![(Move::Back, 1.0)]]),
        SESSION,
    );
    // 1 is left for 2 or for 0 alike, so it is seen as often as both together, and they alike.
    for (share, expected) in shares(&site, 200_000).into_iter().zip([0.25, 0.5, 0.25]) {
        assert!((share - expected).abs() < 0.006, "{share} {expected}");
    }
}

#[test]
fn sessions_end_by_the_table_by_number_and_by_time() {
    let one = |to: Vec<(Move, f64)>| chain(vec![to]);
    let again = || one(vec![(Move::To(0), 1.0)]);
    let n_sessions = |chain, session| walk(&plain(chain, session), 100_000, 1).1 as f64;
    let by_table = n_sessions(one(vec![(Move::To(0), 9.0), (Move::End, 1.0)]), SESSION);
    assert!((by_table - 10_000.0).abs() < 500.0, "{by_table}");
    let by_number = n_sessions(again(), Session { steps_max: 4, ..SESSION });
    assert!((by_number - 25_000.0).abs() < 1.0, "{by_number}");
    // Thinking 7 s each time, 70 s long: after the eleventh thought on average.
    let lasts = Some(Lasting { mean_s: 1e9, cap_s: 70.0, at: 0 });
    let by_time = n_sessions(again(), Session { lasts, ..SESSION });
    assert!((by_time - 100_000.0 / 11.0).abs() < 300.0, "{by_time}");
    // There is nothing before the first page.
    let by_back = n_sessions(one(vec![(Move::Back, 1.0)]), SESSION);
    assert!((by_back - 100_000.0).abs() < 1.0, "{by_back}");
}

#[test]
fn a_literal_table_ends_where_its_sum_exceeds_one_and_stays_where_it_does_not_reach_it() {
    let rows = || vec![vec![(Move::To(0), 0.5), (Move::To(1), 0.7), (Move::End, 9.0)], vec![(Move::To(0), 0.25)]];
    let literal = Chain::new(rows(), Reading::Literal).expect("legal");
    let (counts, n_sessions) = walk(&plain(literal, Session { steps_max: u32::MAX, ..SESSION }), 90_000, 1);
    assert_eq!(n_sessions, 1);
    // 0 goes to 1 half the time, 1 stays three times out of four.
    assert!((counts[0] as f64 / 90_000.0 - 1.0 / 3.0).abs() < 0.01, "{counts:?}");
    assert!(walk(&plain(chain(rows()), SESSION), 9_000, 1).1 > 1_000);
}

#[test]
fn wrong_tables_are_refused() {
    for (row, words) in [
        (vec![], "state number 0: no weight is above 0"),
        (vec![(Move::End, -1.0)], "the weight of End is -1"),
        (vec![(Move::Back, f64::NAN)], "the weight of Back is NaN"),
        (vec![(Move::To(1), 1.0)], "To(1): there are 1 states"),
    ] {
        let refused = Chain::new(vec![row], Reading::Normalised).expect_err("wrong");
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn browsers_that_think_keep_time() {
    let keeps_time = |scale| {
        let site = plain(chain(vec![vec![(Move::To(0), 1.0)]]), SESSION);
        SiteSources::new(Site { think: Think { scale, ..THINK }, ..site }, origin()).expect("legal").keeps_time()
    };
    assert_eq!([1.0, 0.1, 0.0].map(keeps_time), [true, true, false]);
}

#[test]
fn who_thinks_without_end_never_comes_back() {
    let site = Site {
        think: Think { exponential_s: None, scale: 1e200 },
        ..ring(vec![State { wait_s: 1e200, ..state("Home", vec![ask(text("/"))]) }], Vec::new())
    };
    assert_eq!(browser(site).think(), std::time::Duration::MAX);
}

#[test]
fn thinking_is_exponential_up_to_its_cap_and_scaled() {
    let site = Site {
        think: Think { exponential_s: Some((7.0, 14.0)), scale: 0.1 },
        ..plain(chain(vec![vec![(Move::To(0), 1.0)]]), SESSION)
    };
    let mut source = browser(site);
    let n = 40_000;
    let pauses: Vec<f64> = (0..n).map(|_| source.think().as_secs_f64()).collect();
    // Cut at twice the mean: 1 - exp(-2) of it is left, and exp(-2) of the pauses are the cap itself.
    let mean = pauses.iter().sum::<f64>() / f64::from(n);
    assert!((mean / 0.7 - (1.0 - (-2.0_f64).exp())).abs() < 0.02, "{mean}");
    let at_cap = pauses.iter().filter(|&&pause| (pause - 1.4).abs() < 1e-6).count() as f64 / f64::from(n);
    assert!((at_cap - (-2.0_f64).exp()).abs() < 0.01, "{at_cap}");
    let below_median = pauses.iter().filter(|&&pause| pause < 0.7 * 2.0_f64.ln()).count() as f64 / f64::from(n);
    assert!((below_median - 0.5).abs() < 0.01, "{below_median}");
}
