//! Our YCSB generators beside YCSB's own core, number by number. Skipped, with the reason, where Maven or Java is missing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use trimtab_load::random::Random;
use trimtab_load::ycsb::acknowledged::Acknowledged;
use trimtab_load::ycsb::distribution::{KeyChooser, KeyDistribution};
use trimtab_load::ycsb::key::fnv_hash;
use trimtab_load::ycsb::zipfian::{Scrambled, Zipfian};

const VERSION: &str = "0.17.0";

/// The draws of each generator as (argument, result).
type Draws = HashMap<String, Vec<(u64, u64)>>;

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&text).trim()))
}

/// Where Maven keeps what it has fetched, unless it was told otherwise.
fn kept_by_maven() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    let jar = Path::new(&home).join(format!(".m2/repository/site/ycsb/core/{VERSION}/core-{VERSION}.jar"));
    jar.exists().then_some(jar)
}

/// YCSB's core library, fetched once by Maven: where it keeps it, or in the build's own folder. Maven's start takes longer than
/// the draws.
fn fetch_core() -> Result<PathBuf, String> {
    if let Some(jar) = kept_by_maven() {
        return Ok(jar);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let jar = folder.join(format!("core-{VERSION}.jar"));
    if !jar.exists() {
        run(Command::new("mvn")
            .args(["--batch-mode", "--quiet", "dependency:copy"])
            .arg(format!("-Dartifact=site.ycsb:core:{VERSION}"))
            .arg(format!("-DoutputDirectory={}", folder.display()))
            .current_dir(folder))?;
    }
    Ok(jar)
}

fn ask_oracle() -> Result<Draws, String> {
    let jar = fetch_core()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/YcsbOracle.java");
    let mut java = Command::new("java");
    java.args(["-XX:TieredStopAtLevel=1", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp"])
        .arg(jar)
        .arg(source);
    let mut draws = Draws::new();
    for line in run(&mut java)?.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, argument, result] = fields[..] else { return Err(format!("a line of {} fields", fields.len())) };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        draws.entry(name.to_owned()).or_default().push((number(argument)?, number(result)?));
    }
    Ok(draws)
}

/// The share of draws that `ours` answers as the oracle did. Powers may differ in their last bit between the two languages'
/// libraries, which matters where a result is within rounding of a whole number.
fn agreement(draws: &[(u64, u64)], ours: impl Fn(f64) -> u64) -> f64 {
    let n_same = draws.iter().filter(|(bits, result)| ours(f64::from_bits(*bits)) == *result).count();
    n_same as f64 / draws.len() as f64
}

#[test]
fn draws_are_those_of_ycsb() {
    let draws = match ask_oracle() {
        Ok(draws) => draws,
        Err(reason) => return eprintln!("skipped: no YCSB to compare with: {reason}"),
    };
    assert!(draws["hash"].iter().all(|&(number, hash)| fnv_hash(number) == hash));
    for n in [1_000, 123_456] {
        let zipfian = Zipfian::new(n);
        let same = agreement(&draws[&format!("zipfian-{n}")], |u| zipfian.item(u));
        assert!(same > 0.999_9, "zipfian n={n} same={same}");
    }
    // The first was given its last item, the second the number of items.
    for n in [1_001, 1_000_000] {
        let scrambled = Scrambled::new(n);
        let same = agreement(&draws[&format!("scrambled-{n}")], |u| scrambled.item(u));
        assert!(same > 0.999_9, "scrambled n={n} same={same}");
    }
    // These choose on the way, so that only the shares of the two can be compared. YCSB's exponential is an age.
    let ages = draws["exponential-7000"].iter().filter(|(_, age)| *age < 7_000);
    let numbers: Vec<u64> = ages.map(|(_, age)| 6_999 - age).collect();
    assert_same_shares("exponential", &numbers, 7_000, KeyDistribution::EXPONENTIAL);
    for (name, n, distribution) in
        [("latest", 5_000, KeyDistribution::Latest), ("hotspot", 1_000, KeyDistribution::HOTSPOT)]
    {
        let numbers: Vec<u64> = draws[&format!("{name}-{n}")].iter().map(|(_, number)| *number).collect();
        assert_same_shares(name, &numbers, n, distribution);
    }
}

/// Compares the share of each twentieth of `n` records.
fn assert_same_shares(name: &str, theirs: &[u64], n: u64, distribution: KeyDistribution) {
    let existing = Arc::new(Acknowledged::new(n));
    let mut keys = KeyChooser::new(distribution, (0, n), 0, existing, Arc::default());
    let mut random = Random::new(1, 0);
    let ours: Vec<u64> = theirs.iter().map(|_| keys.draw(&mut random)).collect();
    for part in 0..20 {
        let share =
            |numbers: &[u64]| numbers.iter().filter(|&&i| i * 20 / n == part).count() as f64 / numbers.len() as f64;
        let (a, b) = (share(&ours), share(theirs));
        // Five standard deviations of a difference of two shares.
        let bound = 5.0 * (2.0 * b * (1.0 - b) / theirs.len() as f64).sqrt() + 1e-4;
        assert!((a - b).abs() < bound, "{name}, part {part}: {a} and YCSB's {b}");
    }
}
