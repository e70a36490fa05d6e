use super::*;
use crate::ycsb::key::fnv_hash;

const N_DRAWS: usize = 200_000;

struct Table {
    chooser: KeyChooser,
    existing: Arc<Acknowledged>,
    random: Random,
}

fn table(distribution: KeyDistribution, start: u64, n_records: u64, expected_inserts: u64) -> Table {
    let existing = Arc::new(Acknowledged::new(start + n_records));
    let chooser =
        KeyChooser::new(distribution, (start, n_records), expected_inserts, Arc::clone(&existing), Arc::default());
    Table { chooser, existing, random: Random::new(11, 0) }
}

impl Table {
    fn draws(&mut self, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.chooser.draw(&mut self.random)).collect()
    }

    fn insert(&self, n: u64) {
        (0..n).for_each(|_| self.existing.settle(self.existing.reserve().expect("room"), true));
    }
}

/// Pearson's statistic of `counts` against equal shares.
fn chi_square(counts: &[u32]) -> f64 {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum()
}

fn share(draws: &[u64], is_counted: impl Fn(u64) -> bool) -> f64 {
    draws.iter().filter(|&&number| is_counted(number)).count() as f64 / draws.len() as f64
}

#[test]
fn uniform_draws_all_records_alike() {
    let mut counts = [0_u32; 100];
    table(KeyDistribution::Uniform, 1_000, 100, 0)
        .draws(N_DRAWS)
        .iter()
        .for_each(|n| counts[(n - 1_000) as usize] += 1);
    // The 0.1 % quantile above, with 99 degrees of freedom.
    assert!(chi_square(&counts) < 148.2, "{}", chi_square(&counts));
}

#[test]
fn zipfian_keeps_its_popular_records_while_the_table_grows() {
    let mut table = table(KeyDistribution::Zipfian, 0, 10_000, 1_000);
    let hottest = fnv_hash(0) % 12_001;
    for _ in 0..2 {
        let draws = table.draws(N_DRAWS);
        assert!(hottest < 10_000 && (share(&draws, |n| n == hottest) - 0.04).abs() < 0.01);
        assert!(draws.iter().all(|&n| n < table.existing.end()));
        table.insert(1_000);
    }
    assert!(share(&table.draws(N_DRAWS), |n| n >= 10_000) > 0.05);
}

#[test]
fn latest_prefers_the_newest_and_never_draws_what_is_not_acknowledged() {
    let mut table = table(KeyDistribution::Latest, 0, 1_000, 0);
    assert!((share(&table.draws(N_DRAWS), |n| n == 999) - 0.129).abs() < 0.003);
    let pending = table.existing.reserve().expect("room");
    table.insert(500);
    assert!(table.draws(N_DRAWS).iter().all(|&n| n < pending));
    table.existing.settle(pending, true);
    let draws = table.draws(N_DRAWS);
    assert!((share(&draws, |n| n == 1_500) - 0.122).abs() < 0.003);
    assert!(draws.iter().all(|&n| n <= 1_500));
}

#[test]
fn records_whose_insert_failed_are_not_drawn() {
    for distribution in [KeyDistribution::Latest, KeyDistribution::Zipfian, KeyDistribution::EXPONENTIAL] {
        let mut table = table(distribution, 0, 100, 50);
        let failed = table.existing.reserve().expect("room");
        table.existing.settle(failed, false);
        table.insert(20);
        let draws = table.draws(20_000);
        assert!(draws.contains(&(failed + 1)) && !draws.contains(&failed), "{distribution:?}");
    }
}

#[test]
fn a_table_of_failed_inserts_does_not_hang() {
    let mut table = table(KeyDistribution::Latest, 3, 1, 0);
    (0..100).for_each(|_| table.existing.settle(table.existing.reserve().expect("room"), false));
    assert_eq!(table.draws(1), [3]);
}

#[test]
fn hotspot_gives_its_share_to_the_first_records() {
    let draws = table(KeyDistribution::HOTSPOT, 50, 1_000, 0).draws(N_DRAWS);
    assert!((share(&draws, |n| n < 250) - 0.8).abs() < 0.005);
    assert!(draws.iter().all(|n| (50..1_050).contains(n)));
    let all_cold = KeyDistribution::Hotspot { data_fraction: 0.0, operation_fraction: 1.0 };
    let all_hot = KeyDistribution::Hotspot { data_fraction: 1.0, operation_fraction: 0.0 };
    for edge in [all_cold, all_hot] {
        assert!(table(edge, 0, 10, 0).draws(100).iter().all(|&n| n < 10));
    }
}

#[test]
fn exponential_gives_95_percent_to_the_newest_six_sevenths() {
    let draws = table(KeyDistribution::EXPONENTIAL, 0, 7_000, 0).draws(N_DRAWS);
    // Draws beyond the oldest record are repeated, which leaves 1 - 0.05^(7/6) of them.
    let expected = 0.95 / (1.0 - 0.05_f64.powf(7.0 / 6.0));
    assert!((share(&draws, |n| n >= 1_000) - expected).abs() < 0.002);
}

#[test]
fn sequential_goes_round() {
    assert_eq!(table(KeyDistribution::Sequential, 5, 3, 0).draws(7), [5, 6, 7, 5, 6, 7, 5]);
}

#[test]
fn tables_of_one_record_work() {
    let all = [
        KeyDistribution::Uniform,
        KeyDistribution::Zipfian,
        KeyDistribution::Latest,
        KeyDistribution::HOTSPOT,
        KeyDistribution::EXPONENTIAL,
        KeyDistribution::Sequential,
    ];
    for distribution in all {
        assert_eq!(table(distribution, 9, 1, 0).draws(3), [9, 9, 9], "{distribution:?}");
    }
}

#[test]
fn wrong_shares_are_refused() {
    let refused = [
        (KeyDistribution::Hotspot { data_fraction: 1.5, operation_fraction: 0.5 }, "data_fraction=1.5"),
        (KeyDistribution::Exponential { percentile: 100.0, data_fraction: 0.5 }, "percentile=100"),
        (KeyDistribution::Exponential { percentile: 95.0, data_fraction: 0.0 }, "data_fraction=0"),
    ];
    for (distribution, words) in refused {
        assert!(distribution.check().expect_err("out of range").contains(words));
    }
}

#[test]
fn lengths_stay_within_bounds_and_follow_their_distribution() {
    let draw = |distribution, n: usize| {
        let chooser = LengthChooser::new(distribution, 1, 100);
        let mut random = Random::new(5, 0);
        (0..n).map(|_| chooser.draw(&mut random)).collect::<Vec<u32>>()
    };
    assert!(draw(LengthDistribution::Constant, 100).iter().all(|&n| n == 100));
    let mut counts = [0_u32; 100];
    draw(LengthDistribution::Uniform, N_DRAWS).iter().for_each(|&n| counts[n as usize - 1] += 1);
    assert!(chi_square(&counts) < 148.2);
    let lengths = draw(LengthDistribution::Zipfian, N_DRAWS);
    let ones = lengths.iter().filter(|&&n| n == 1).count() as f64 / N_DRAWS as f64;
    assert!(lengths.iter().all(|n| (1..=100).contains(n)));
    // 1 / ζ(100)
    assert!((ones - 0.1890).abs() < 0.005, "{ones}");
}
