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
        let nodes: HashSet<u16> = owners.iter().map(|(_, node)| *node).collect();
        let starts = 0..owners.len();
        match self {
            Self::Simple(copies) => {
                let copies = nodes.len().min(*copies);
                starts.map(|start| distinct(around(owners, start)).take(copies).filter(is_home).collect()).collect()
            }
            Self::Network(copies) => {
                let nodes: Vec<u16> = nodes.into_iter().filter(is_home).collect();
                let n_racks = nodes.iter().map(|node| rack_of(places, *node)).collect::<HashSet<_>>().len();
                let copies = copies.get(home).copied().unwrap_or_default().min(nodes.len());
                let walk = |start| distinct(around(owners, start).filter(is_home));
                starts.map(|start| spread(walk(start), places, n_racks, copies)).collect()
            }
        }
    }
}

/// The nodes of all tokens once around the ring.
fn around(owners: &Owners, start: usize) -> impl Iterator<Item = u16> {
    owners[start..].iter().chain(&owners[..start]).map(|(_, node)| *node)
}

fn distinct(nodes: impl Iterator<Item = u16>) -> impl Iterator<Item = u16> {
    let mut seen = HashSet::new();
    nodes.filter(move |node| seen.insert(*node))
}

fn rack_of(places: &[Place], node: u16) -> &str {
    &places[usize::from(node)].rack
}

/// So many nodes of one data center, which has as many: each rack gets one copy before a rack gets a second one. The walk ends
/// with the last one, so that a large ring is not gone around for each of its tokens.
fn spread(walk: impl Iterator<Item = u16>, places: &[Place], n_racks: usize, copies: usize) -> Vec<u16> {
    let (mut racks, mut n_repeats) = (HashSet::new(), copies.saturating_sub(n_racks));
    let is_taken = |node: &u16| {
        let is_first = racks.insert(rack_of(places, *node));
        let is_repeat = !is_first && n_repeats > 0;
        n_repeats -= usize::from(is_repeat);
        is_first || is_repeat
    };
    walk.filter(is_taken).take(copies).collect()
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

    #[test]
    fn a_large_ring_is_placed_at_once() {
        let owners: Vec<(i64, u16)> =
            (0..25_600).map(|token| (token, u16::try_from(token * 37 % 100).unwrap())).collect();
        let racks: Vec<String> = (0..100).map(|node| format!("r{}", node % 3)).collect();
        let places = places(&racks.iter().map(|rack| ("a", rack.as_str())).collect::<Vec<_>>());
        let found = Strategy::Network(HashMap::from([("a".to_owned(), 3)])).replicas(&owners, &places, "a");
        assert_eq!(found.len(), owners.len());
        for (nodes, (_, first)) in found.iter().zip(&owners) {
            assert_eq!(nodes[0], *first);
            assert_eq!(nodes.iter().map(|node| node % 3).collect::<HashSet<_>>().len(), 3);
        }
    }
}
