//! Which nodes hold the rows of a token: Cassandra's own rules of placement on a ring.

use std::collections::{HashMap, HashSet};

/// What a node says of itself, and where it lies.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) datacenter: String,
    pub(super) rack: String,
}

/// Tokens in their order, each with the number of the node whose it is.
pub(super) type Owners = [(i64, u16)];

/// How the rows of a keyspace are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// So many copies, on the next nodes of the ring.
    Simple(usize),
    /// So many copies in each data center, in different racks where there are enough.
    Network(HashMap<String, usize>),
}

impl Strategy {
    /// Reads what `system_schema.keyspaces` says, as text; `None` for another kind, whose rows are at no node that is known here.
    pub(super) fn read(replication: &str) -> Option<Self> {
        let inside = replication.strip_prefix('{')?.strip_suffix('}')?;
        let mut options: HashMap<&str, &str> = inside.split(", ").filter_map(|pair| pair.split_once(": ")).collect();
        let class = options.remove("class")?;
        // "3/1": three copies, one of them a transient one.
        let copies = |text: &str| text.split('/').next().and_then(|number| number.parse::<usize>().ok());
        match class.rsplit('.').next()? {
            "SimpleStrategy" => Some(Self::Simple(copies(options.get("replication_factor")?)?)),
            "NetworkTopologyStrategy" => {
                let each = options.into_iter().filter_map(|(name, text)| Some((name.to_owned(), copies(text)?)));
                Some(Self::Network(each.collect()))
            }
            _ => None,
        }
    }

    /// The nodes of data center `home` that have copies of the rows of each token, in the order of the ring from the token on:
    /// the first one is the row's first place.
    pub(super) fn replicas(&self, owners: &Owners, places: &[Place], home: &str) -> Vec<Vec<u16>> {
        let is_home = |node: &u16| places[usize::from(*node)].datacenter == home;
        let starts = 0..owners.len();
        match self {
            Self::Simple(copies) => starts
                .map(|start| {
                    let mut found = distinct(around(owners, start));
                    found.truncate(*copies);
                    found.retain(is_home);
                    found
                })
                .collect(),
            Self::Network(copies) => {
                let copies = copies.get(home).copied().unwrap_or_default();
                let walk = |start| distinct(around(owners, start).filter(|node| is_home(node)));
                starts.map(|start| spread(&walk(start), places, copies)).collect()
            }
        }
    }
}

/// The nodes of all tokens once around the ring.
fn around(owners: &Owners, start: usize) -> impl Iterator<Item = u16> {
    owners[start..].iter().chain(&owners[..start]).map(|(_, node)| *node)
}

fn distinct(nodes: impl Iterator<Item = u16>) -> Vec<u16> {
    let mut seen = HashSet::new();
    nodes.filter(|node| seen.insert(*node)).collect()
}

/// So many nodes of one data center: each rack gets one copy before a rack gets a second one.
fn spread(walk: &[u16], places: &[Place], copies: usize) -> Vec<u16> {
    let rack_of = |node: &u16| places[usize::from(*node)].rack.as_str();
    let n_racks = walk.iter().map(rack_of).collect::<HashSet<_>>().len();
    let mut n_repeats = copies.saturating_sub(n_racks);
    let (mut racks, mut found) = (HashSet::new(), Vec::new());
    for node in walk {
        if found.len() == copies {
            break;
        }
        if racks.insert(rack_of(node)) {
            found.push(*node);
        } else if n_repeats > 0 {
            n_repeats -= 1;
            found.push(*node);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: &[(&str, &str)]) -> Vec<Place> {
        all.iter().map(|(datacenter, rack)| Place { datacenter: (*datacenter).into(), rack: (*rack).into() }).collect()
    }

    #[test]
    fn what_a_keyspace_says_of_its_copies_is_read() {
        let class = "org.apache.cassandra.locator";
        let read = |text: &str| Strategy::read(&format!("{{class: {class}.{text}}}"));
        assert_eq!(read("SimpleStrategy, replication_factor: 3"), Some(Strategy::Simple(3)));
        let both = Strategy::Network(HashMap::from([("dc1".to_owned(), 3), ("dc2".to_owned(), 2)]));
        assert_eq!(read("NetworkTopologyStrategy, dc1: 3/1, dc2: 2"), Some(both));
        assert_eq!(read("LocalStrategy"), None);
        assert_eq!(Strategy::read(""), None);
    }

    #[test]
    fn simple_copies_go_to_the_next_nodes() {
        let owners = [(-10, 0), (-5, 1), (0, 1), (5, 2), (10, 0)];
        let places = places(&[("dc", "r"), ("dc", "r"), ("dc", "r")]);
        let found = Strategy::Simple(2).replicas(&owners, &places, "dc");
        assert_eq!(found, [[0, 1], [1, 2], [1, 2], [2, 0], [0, 1]]);
        let found = Strategy::Simple(9).replicas(&owners, &places, "dc");
        assert_eq!(found[3], [2, 0, 1]);
    }

    #[test]
    fn copies_in_another_data_center_are_not_asked() {
        let owners = [(0, 0), (1, 1), (2, 2)];
        let places = places(&[("a", "r"), ("b", "r"), ("a", "r")]);
        assert_eq!(Strategy::Simple(2).replicas(&owners, &places, "a"), [vec![0], vec![2], vec![2, 0]]);
        let network = Strategy::Network(HashMap::from([("a".to_owned(), 2)]));
        assert_eq!(network.replicas(&owners, &places, "a"), [[0, 2], [2, 0], [2, 0]]);
        assert_eq!(network.replicas(&owners, &places, "b"), [[0_u16; 0]; 3]);
    }

    #[test]
    fn a_rack_gets_a_second_copy_when_each_has_one() {
        let owners = [(0, 0), (1, 1), (2, 2), (3, 3)];
        let places = places(&[("a", "x"), ("a", "x"), ("a", "y"), ("a", "z")]);
        let copies = |n: usize| Strategy::Network(HashMap::from([("a".to_owned(), n)])).replicas(&owners, &places, "a");
        assert_eq!(copies(2), [[0, 2], [1, 2], [2, 3], [3, 0]]);
        assert_eq!(copies(3), [[0, 2, 3], [1, 2, 3], [2, 3, 0], [3, 0, 2]]);
        assert_eq!(copies(4)[0], [0, 1, 2, 3]);
        assert_eq!(copies(7)[1], [1, 2, 3, 0]);
    }
}
